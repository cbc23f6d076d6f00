#include "tests/device/gradient_cases.h"

#include "common/program/cohort_ops.h"
#include "common/program/program.h"

namespace cohort {
namespace {

GradientInput Positive(std::vector<int64_t> dims) { return {std::move(dims), Fill::kPositive}; }
GradientInput Index(std::vector<int64_t> dims, int64_t bound) {
  return {std::move(dims), Fill::kIndex, bound};
}

std::vector<onnx::AttributeProto> Transposed(int64_t a, int64_t b) {
  return {IntAttribute("transA", a), IntAttribute("transB", b)};
}

std::vector<onnx::AttributeProto> Scaled(int64_t a, int64_t b) {
  auto attributes = Transposed(a, b);
  attributes.push_back(FloatAttribute("alpha", 0.5f));
  attributes.push_back(FloatAttribute("beta", -1.25f));
  return attributes;
}

BuildCase ReshapeTo(std::vector<int64_t> shape) {
  return [shape](GraphBuilder& builder, const std::vector<std::string>& inputs, DType) {
    const auto size = static_cast<int64_t>(shape.size());
    const auto target = builder.Constant("shape", Tensor::FromVector(shape, {size}));
    return builder.Op("Reshape", {inputs[0], target});
  };
}

BuildCase SumOver(std::vector<int64_t> axes, std::vector<onnx::AttributeProto> attributes) {
  return [=](GraphBuilder& builder, const std::vector<std::string>& inputs, DType) {
    const auto size = static_cast<int64_t>(axes.size());
    const auto constant = builder.Constant("axes", Tensor::FromVector(axes, {size}));
    return builder.Op("ReduceSum", {inputs[0], constant}, attributes);
  };
}

}  // namespace

BuildCase OneNode(const std::string& op, std::vector<onnx::AttributeProto> attributes,
                  const std::string& domain) {
  return [=](GraphBuilder& builder, const std::vector<std::string>& inputs, DType) {
    return builder.Op(op, inputs, attributes, domain);
  };
}

BuildCase NodeWith(const std::string& op, std::vector<Tensor> constants,
                   std::vector<onnx::AttributeProto> attributes) {
  return [=](GraphBuilder& builder, const std::vector<std::string>& inputs, DType) {
    std::vector<std::string> all = inputs;
    for (const Tensor& constant : constants) all.push_back(builder.Constant("constant", constant));
    return builder.Op(op, all, attributes);
  };
}

Tensor Numbers(std::vector<int64_t> values) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

std::vector<GradientCase> MathGradientCases() {
  std::vector<GradientCase> cases;
  for (const std::string op : {"Add", "Sub", "Mul", "Div"}) {
    const auto b = [&](std::vector<int64_t> dims) {
      return GradientInput{std::move(dims), op == "Div" ? Fill::kPositive : Fill::kReal};
    };
    cases.push_back({op + "_same", {{{-1, 4}}, b({-1, 4})}, OneNode(op)});
    cases.push_back({op + "_row", {{{-1, 4}}, b({4})}, OneNode(op)});
    cases.push_back({op + "_row_first", {{{4}}, b({-1, 4})}, OneNode(op)});
    cases.push_back({op + "_column", {{{-1, 4}}, b({-1, 1})}, OneNode(op)});
    cases.push_back({op + "_scalar", {{{2, 3}}, b({})}, OneNode(op)});
    cases.push_back({op + "_scalar_first", {{{}}, b({2, 3})}, OneNode(op)});
    cases.push_back({op + "_both_ways", {{{2, 1, 3}}, b({4, 1})}, OneNode(op)});
    cases.push_back({op + "_ones", {{{1, 1}}, b({1})}, OneNode(op)});
    // The symbolic batch may be 1, and then a batch of 1 is not the same as no broadcasting.
    cases.push_back({op + "_batch_against_one", {{{-1, 3}}, b({1, 3})}, OneNode(op)});
  }
  for (const std::string op : {"Neg", "Exp", "Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax"}) {
    cases.push_back({op, {{{-1, 5}}}, OneNode(op)});
    cases.push_back({op + "_rank3", {{{2, 3, 2}}}, OneNode(op)});
  }
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    cases.push_back({op + "_axis0", {{{3, 4}}}, OneNode(op, {IntAttribute("axis", 0)})});
    cases.push_back({op + "_axis1", {{{-1, 3, 2}}}, OneNode(op, {IntAttribute("axis", 1)})});
    cases.push_back({op + "_negative", {{{2, 3, 2}}}, OneNode(op, {IntAttribute("axis", -2)})});
  }
  cases.push_back({"Sqrt", {Positive({-1, 3})}, OneNode("Sqrt")});
  cases.push_back({"Log", {Positive({-1, 3})}, OneNode("Log")});
  return cases;
}

std::vector<GradientCase> ProductGradientCases() {
  return {
      {"MatMul", {{{-1, 4}}, {{4, 3}}}, OneNode("MatMul")},
      {"MatMul_static", {{{2, 4}}, {{4, 3}}}, OneNode("MatMul")},
      {"MatMul_rank3_by_matrix", {{{-1, 2, 4}}, {{4, 3}}}, OneNode("MatMul")},
      {"MatMul_matrix_by_rank3", {{{2, 4}}, {{-1, 4, 3}}}, OneNode("MatMul")},
      {"MatMul_batched", {{{2, 3, 4}}, {{2, 4, 2}}}, OneNode("MatMul")},
      {"MatMul_broadcast", {{{2, 1, 3, 2}}, {{3, 2, 2}}}, OneNode("MatMul")},
      {"MatMul_vectors", {{{4}}, {{4}}}, OneNode("MatMul")},
      {"MatMul_vector_by_matrix", {{{4}}, {{4, 3}}}, OneNode("MatMul")},
      {"MatMul_matrix_by_vector", {{{-1, 4}}, {{4}}}, OneNode("MatMul")},
      {"MatMul_vector_by_rank3", {{{4}}, {{2, 4, 3}}}, OneNode("MatMul")},
      {"MatMul_rank3_by_vector", {{{2, 3, 4}}, {{4}}}, OneNode("MatMul")},
      {"Gemm", {{{-1, 4}}, {{4, 3}}, {{3}}}, OneNode("Gemm")},
      {"Gemm_without_c", {{{-1, 4}}, {{4, 3}}}, OneNode("Gemm")},
      {"Gemm_a_transposed", {{{4, 2}}, {{4, 3}}, {{2, 1}}}, OneNode("Gemm", Transposed(1, 0))},
      {"Gemm_b_transposed", {{{-1, 4}}, {{3, 4}}, {{}}}, OneNode("Gemm", Transposed(0, 1))},
      {"Gemm_transposed", {{{4, 2}}, {{3, 4}}, {{2, 3}}}, OneNode("Gemm", Transposed(1, 1))},
      {"Gemm_scaled", {{{-1, 4}}, {{4, 3}}, {{3}}}, OneNode("Gemm", Scaled(0, 0))},
      {"Gemm_scaled_a", {{{4, 2}}, {{4, 3}}, {{3}}}, OneNode("Gemm", Scaled(1, 0))},
      {"Gemm_scaled_b", {{{-1, 4}}, {{3, 4}}, {{1, 3}}}, OneNode("Gemm", Scaled(0, 1))},
      {"Gemm_scaled_ab", {{{4, 2}}, {{3, 4}}, {{2, 3}}}, OneNode("Gemm", Scaled(1, 1))},
  };
}

std::vector<GradientCase> TensorGradientCases() {
  const auto axis = [](int64_t value) { return IntAttribute("axis", value); };
  const auto keep = [](int64_t value) { return IntAttribute("keepdims", value); };
  return {
      {"Identity", {{{-1, 3}}}, OneNode("Identity")},
      {"Reshape", {{{-1, 2, 3}}}, ReshapeTo({-1, 6})},
      {"Reshape_zero", {{{2, 3, 2}}}, ReshapeTo({0, -1})},
      {"Reshape_scalar", {{{1, 1}}}, ReshapeTo({1})},
      {"Flatten", {{{-1, 2, 3}}}, OneNode("Flatten")},
      {"Flatten_axis0", {{{2, 3}}}, OneNode("Flatten", {axis(0)})},
      {"Flatten_axis2", {{{-1, 2, 3}}}, OneNode("Flatten", {axis(2)})},
      {"Transpose", {{{-1, 3}}}, OneNode("Transpose")},
      {"Transpose_rank3", {{{2, 3, 4}}}, OneNode("Transpose")},
      {"Transpose_perm",
       {{{-1, 3, 2, 2}}},
       OneNode("Transpose", {IntsAttribute("perm", {2, 0, 3, 1})})},
      {"Concat", {{{-1, 2}}, {{-1, 3}}}, OneNode("Concat", {axis(1)})},
      {"Concat_rows", {{{-1, 2}}, {{3, 2}}, {{1, 2}}}, OneNode("Concat", {axis(0)})},
      {"Concat_negative", {{{2, 2, 1}}, {{2, 2, 3}}}, OneNode("Concat", {axis(-1)})},
      {"Concat_one", {{{2, 2}}}, OneNode("Concat", {axis(0)})},
      {"Gather", {{{5, 3}}, Index({-1}, 5)}, OneNode("Gather")},
      {"Gather_axis1", {{{2, 4, 3}}, Index({2, 2}, 4)}, OneNode("Gather", {axis(1)})},
      {"Gather_last", {{{-1, 4}}, Index({6}, 4)}, OneNode("Gather", {axis(-1)})},
      {"Gather_scalar", {{{4, 3}}, Index({}, 4)}, OneNode("Gather")},
      {"ReduceSum", {{{-1, 3}}}, OneNode("ReduceSum", {keep(0)})},
      {"ReduceSum_keep", {{{-1, 3}}}, OneNode("ReduceSum", {keep(1)})},
      {"ReduceSum_axis", {{{-1, 3, 2}}}, SumOver({1}, {keep(0)})},
      {"ReduceSum_axes", {{{-1, 3, 2}}}, SumOver({0, -1}, {keep(0)})},
      {"ReduceSum_axes_keep", {{{-1, 3, 2}}}, SumOver({-1, 0}, {keep(1)})},
      {"ReduceSum_noop",
       {{{-1, 3}}},
       OneNode("ReduceSum", {IntAttribute("noop_with_empty_axes", 1)})},
      {"ReduceMean", {{{-1, 3}}}, OneNode("ReduceMean", {keep(0)})},
      {"ReduceMean_axis",
       {{{-1, 3, 2}}},
       OneNode("ReduceMean", {IntsAttribute("axes", {1}), keep(0)})},
      {"ReduceMean_axes_keep",
       {{{-1, 3, 2}}},
       OneNode("ReduceMean", {IntsAttribute("axes", {0, -1}), keep(1)})},
  };
}

std::vector<GradientCase> LossGradientCases() {
  const auto reduction = [](const std::string& kind) { return StringAttribute("reduction", kind); };
  const auto ignore = IntAttribute("ignore_index", 1);
  const auto logits = IntAttribute("from_logits", 1);
  const GradientInput labels = {{-1}, Fill::kLabel, 4};
  const GradientInput weights = {{4}, Fill::kData};
  const GradientInput soft = {{-1, 4}, Fill::kData};
  const GradientInput probabilities = {{-1, 4}, Fill::kProbability};
  const std::string onnx_loss = "SoftmaxCrossEntropyLoss";
  const std::string dense = "CategoricalCrossentropy";
  const std::string sparse = "SparseCategoricalCrossentropy";
  std::vector<GradientCase> cases;
  for (const std::string kind : {"mean", "sum", "none"}) {
    const std::string name = onnx_loss + "_" + kind;
    cases.push_back({name, {{{-1, 4}}, labels}, OneNode(onnx_loss, {reduction(kind)})});
    cases.push_back(
        {name + "_weights", {{{-1, 4}}, labels, weights}, OneNode(onnx_loss, {reduction(kind)})});
    cases.push_back({name + "_ignore",
                     {{{4, 4}}, {{4}, Fill::kLabel, 4}, weights},
                     OneNode(onnx_loss, {reduction(kind), ignore})});
    cases.push_back({name + "_image",
                     {{{-1, 4, 2, 3}}, {{-1, 2, 3}, Fill::kLabel, 4}},
                     OneNode(onnx_loss, {reduction(kind)})});
  }
  // The second output has a gradient of its own, which joins the loss's.
  cases.push_back({onnx_loss + "_log_prob",
                   {{{-1, 4}}, labels},
                   [=](GraphBuilder& builder, const std::vector<std::string>& inputs, DType) {
                     const auto outputs = builder.OpN(onnx_loss, inputs, 2);
                     return builder.Op("Mul", {outputs[0], outputs[1]});
                   }});
  cases.push_back({dense, {soft, probabilities}, OneNode(dense, {}, kCohortDomain)});
  cases.push_back({dense + "_logits", {soft, {{-1, 4}}}, OneNode(dense, {logits}, kCohortDomain)});
  cases.push_back({dense + "_axis1",
                   {{{2, 3, 2}, Fill::kData}, {{2, 3, 2}, Fill::kProbability}},
                   OneNode(dense, {IntAttribute("axis", 1)}, kCohortDomain)});
  cases.push_back({sparse, {labels, probabilities}, OneNode(sparse, {}, kCohortDomain)});
  cases.push_back(
      {sparse + "_logits", {labels, {{-1, 4}}}, OneNode(sparse, {logits}, kCohortDomain)});
  // Values above the clip bound, 1 - 1e-7, get no gradient.
  cases.push_back({sparse + "_clipped",
                   {labels, {{-1, 4}, Fill::kPositive}},
                   OneNode(sparse, {}, kCohortDomain)});
  cases.push_back({sparse + "_sequence",
                   {{{-1, 3}, Fill::kLabel, 4}, {{-1, 3, 4}}},
                   OneNode(sparse, {logits}, kCohortDomain)});
  // Repeated labels need a blank between them, so paths are long enough for any labels.
  cases.push_back({"CtcLoss",
                   {{{-1, 2}, Fill::kLabel, 4}, {{-1, 6, 4}}},
                   OneNode("CtcLoss", {}, kCohortDomain)});
  return cases;
}

}  // namespace cohort
