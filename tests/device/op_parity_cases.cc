#include "tests/device/op_parity_cases.h"

#include <utility>

#include "common/program/tensor_proto.h"

namespace cohort {
namespace {

const Tensor kTrue = Tensor::Scalar<bool>(true);

void AddArithmetic(std::vector<OpCase>& cases) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Equal"}) {
    for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{7, 33}, {7, 33}},
                                                                   {{7, 33}, {33}},
                                                                   {{7, 33}, {7, 1}},
                                                                   {{}, {5, 3}},
                                                                   {{4, 1, 5}, {3, 1}},
                                                                   {{0, 4}, {4}},
                                                                   {{1, 1}, {1}},
                                                                   {{2, 3, 4, 5}, {3, 1, 5}}}) {
      cases.push_back({kOnnx, op, {{a}, {b, OpFill::kPositive}}});
    }
  }
}

void AddUnary(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{5, 67}, Shape{129}}) {
    for (const char* op : {"Neg", "Exp", "Relu", "Sigmoid", "Tanh", "Identity"}) {
      cases.push_back({kOnnx, op, {{shape}}});
    }
    for (const char* op : {"Sqrt", "Log"}) {
      cases.push_back({kOnnx, op, {{shape, OpFill::kPositive}}});
    }
    for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad"}) {
      cases.push_back({kCohort, op, {{shape}, {shape}}});
    }
    cases.push_back({kCohort, "ZerosLike", {{shape}}});
    cases.push_back({kCohort, "StopGradient", {{shape}}});
    cases.push_back({kOnnx, "Cast", {{shape}}, {IntAttribute("to", 7)}});
  }
}

void AddProducts(std::vector<OpCase>& cases) {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{5, 7}, {7, 3}},
                                                                 {{1, 64}, {64, 1}},
                                                                 {{7}, {7, 3}},
                                                                 {{5, 7}, {7}},
                                                                 {{7}, {7}},
                                                                 {{0, 7}, {7, 3}},
                                                                 {{5, 0}, {0, 3}},
                                                                 {{2, 5, 7}, {7, 3}},
                                                                 {{2, 1, 5, 7}, {3, 7, 2}},
                                                                 {{128, 33}, {33, 17}}}) {
    cases.push_back({kOnnx, "MatMul", {{a}, {b}}});
  }
  for (const int64_t columns : {1, 2, 3, 4, 5}) {  // few of them have loops of their own
    cases.push_back({kOnnx, "MatMul", {{{67, 45}}, {{45, columns}}}});
    cases.push_back({kOnnx, "Gemm", {{{67, 45}}, {{67, columns}}}, {IntAttribute("transA", 1)}});
  }
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::vector<onnx::AttributeProto> flags = {IntAttribute("transA", ta),
                                                       IntAttribute("transB", tb)};
      const Shape a = ta ? Shape{7, 5} : Shape{5, 7};
      const Shape b = tb ? Shape{3, 7} : Shape{7, 3};
      cases.push_back({kOnnx, "Gemm", {{a}, {b}}, flags});
      for (const Shape& c : {Shape{3}, Shape{5, 1}, Shape{}, Shape{5, 3}}) {
        std::vector<onnx::AttributeProto> all = flags;
        all.push_back(FloatAttribute("alpha", 0.5f));
        all.push_back(FloatAttribute("beta", 2));
        cases.push_back({kOnnx, "Gemm", {{a}, {b}, {c}}, all});
      }
    }
  }
  cases.push_back({kOnnx, "Gemm", {{{4, 0}}, {{0, 2}}, {{2}}}});
  cases.push_back({kOnnx, "Gemm", {{{0, 3}}, {{3, 2}}, {{2}}}});
}

void AddReductions(std::vector<OpCase>& cases) {
  struct Axes {
    Shape shape;
    std::vector<int64_t> axes;
    Shape kept;
    Shape dropped;
  };
  for (const Axes& each : std::vector<Axes>{{{6, 35}, {0}, {1, 35}, {35}},
                                            {{6, 35}, {-1}, {6, 1}, {6}},
                                            {{6, 35}, {0, 1}, {1, 1}, {}},
                                            {{3, 4, 5}, {1}, {3, 1, 5}, {3, 5}},
                                            {{3, 4, 5}, {0, 2}, {1, 4, 1}, {4}},
                                            {{1, 1}, {0}, {1, 1}, {1}},
                                            {{0, 5}, {0}, {1, 5}, {5}}}) {
    for (const int64_t keep : {0, 1}) {
      const auto keep_dims = IntAttribute("keepdims", keep);
      const auto axes = IntsAttribute("axes", each.axes);
      const Shape grad = keep ? each.kept : each.dropped;
      const int64_t count = static_cast<int64_t>(each.axes.size());
      cases.push_back({kOnnx,
                       "ReduceSum",
                       {{each.shape}},
                       {keep_dims},
                       1,
                       {Tensor::FromVector<int64_t>(each.axes, Shape{count})}});
      cases.push_back({kOnnx, "ReduceMean", {{each.shape}}, {keep_dims, axes}});
      for (const int64_t mean : {0, 1}) {
        cases.push_back({kCohort,
                         "ReduceGrad",
                         {{grad}, {each.shape}},
                         {keep_dims, axes, IntAttribute("mean", mean)}});
      }
      if (each.shape.dim(0) == 0) continue;  // no largest element
      cases.push_back(
          {kOnnx, "ArgMax", {{each.shape}}, {keep_dims, IntAttribute("axis", each.axes[0])}});
    }
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {each.kept}}});
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {each.shape}}});
    cases.push_back({kCohort, "ReduceToShapeOf", {{each.shape}, {{}}}});
  }
}

// Rows of every length that has a loop of its own, and others; indices of both types.
void AddRows(std::vector<OpCase>& cases) {
  const auto by32 = Tensor::FromVector<int32_t>({6, 0, 3, 3, 1, 6}, {6});
  for (const int64_t width : {0, 1, 4, 8, 16, 31, 32, 40}) {
    const std::vector<Tensor> negative = {Tensor::FromVector<int64_t>({-1, 0, -7, 3}, {2, 2})};
    cases.push_back({kOnnx, "Gather", {{{7, width}}, {{3, 2}, OpFill::kLabel}}});
    cases.push_back({kOnnx, "Gather", {{{7, width}}}, {}, 1, {by32}});
    cases.push_back({kOnnx, "Gather", {{{7, width}}}, {}, 1, negative});
    cases.push_back({kCohort,
                     "GatherGrad",
                     {{{40, width}, OpFill::kNormal}, {{40}, OpFill::kLabel}, {{7, width}}}});
    cases.push_back({kOnnx,
                     "Concat",
                     {{{19, width}}, {{19, 3}}, {{19, width}}, {{19, 8}}},
                     {IntAttribute("axis", 1)}});
    cases.push_back({kCohort,
                     "ConcatGrad",
                     {{{19, 2 * width + 3}}, {{19, width}}, {{19, 3}}, {{19, width}}},
                     {IntAttribute("axis", -1)},
                     3});
  }
  const auto ints = Tensor::FromVector<int32_t>({1, 2, 3, 4}, {2, 2});
  cases.push_back({kOnnx, "Concat", {}, {IntAttribute("axis", 0)}, 1, {ints, ints}});
  cases.push_back({kOnnx, "Concat", {{{2, 3, 4}}, {{2, 5, 4}}}, {IntAttribute("axis", 1)}});
}

void AddMovement(std::vector<OpCase>& cases) {
  cases.push_back(
      {kOnnx, "Reshape", {{{4, 6}}}, {}, 1, {Tensor::FromVector<int64_t>({2, -1}, {2})}});
  cases.push_back({kOnnx, "Flatten", {{{4, 3, 2}}}, {IntAttribute("axis", 1)}});
  cases.push_back({kCohort, "ReshapeLike", {{{4, 3}}, {{2, 6}}}});
  cases.push_back({kOnnx, "Transpose", {{{4, 3, 2}}}, {IntsAttribute("perm", {2, 0, 1})}});
  cases.push_back({kOnnx, "Transpose", {{{0, 3}}}});
  cases.push_back({kOnnx, "Transpose", {{{35, 50}}}});
  cases.push_back({kOnnx, "Transpose", {{{3, 1, 5}}}, {IntsAttribute("perm", {1, 0, 2})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5}}}, {IntsAttribute("perm", {1, 0, 2})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5, 6}}}, {IntsAttribute("perm", {0, 2, 3, 1})}});
  cases.push_back({kOnnx, "Transpose", {{{3, 4, 5, 6}}}, {IntsAttribute("perm", {3, 2, 0, 1})}});
  cases.push_back({kOnnx, "Size", {{{3, 4}}}});
  cases.push_back({kCohort, "AllReduce", {{{3, 4}}}, {StringAttribute("reduction", "sum")}});
  cases.push_back({kCohort, "AllGather", {{{3, 4}}}, {IntAttribute("axis", -1)}});
  cases.push_back({kCohort, "AllGatherGrad", {{{3, 4}}, {{3, 4}}}, {IntAttribute("axis", 1)}});
  cases.push_back({kOnnx, "Concat", {{{2, 3}}, {{2, 0}}, {{2, 4}}}, {IntAttribute("axis", 1)}});
  cases.push_back(
      {kCohort, "ConcatGrad", {{{2, 7}}, {{2, 3}}, {{2, 4}}}, {IntAttribute("axis", -1)}, 2});
  for (const float limit : {0.5f, 1e6f}) {
    const auto norm = FloatAttribute("clip_norm", limit);
    cases.push_back({kCohort, "ClipByNorm", {{{7, 33}}, {{}}, {{0, 4}}}, {norm}, 3});
    cases.push_back({kCohort, "ClipByValue", {{{7, 33}}}, {FloatAttribute("clip_value", limit)}});
  }
  cases.push_back(
      {kOnnx, "Gather", {{{3, 5}}, {{2, 2}, OpFill::kLabel}}, {IntAttribute("axis", 0)}});
  cases.push_back({kOnnx, "Gather", {{{2, 4}}, {{0}, OpFill::kLabel}}, {IntAttribute("axis", 1)}});
  cases.push_back({kCohort, "GatherGrad", {{{4, 5}}, {{4}, OpFill::kLabel}, {{3, 5}}}});
  AddRows(cases);
  cases.push_back({kOnnx,
                   "OneHot",
                   {{{4}, OpFill::kLabel}},
                   {IntAttribute("axis", -1)},
                   1,
                   {Tensor::Scalar<int64_t>(3), Tensor::FromVector<float>({0, 1}, {2})}});
  onnx::AttributeProto value;
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = ToTensorProto("value", Tensor::FromVector<float>({1, 2}, {2}));
  cases.push_back({kOnnx, "Constant", {}, {value}});
  for (const Shape& shape : {Shape{0, 4}, Shape{1, 1}, Shape{9, 13}}) {
    cases.push_back({kOnnx, "Dropout", {{shape}}, {}, 2, {Tensor::Scalar<float>(0.4f), kTrue}});
    cases.push_back({kOnnx,
                     "RandomNormalLike",
                     {{shape}},
                     {FloatAttribute("mean", 1), FloatAttribute("scale", 0.5)}});
    cases.push_back({kCohort,
                     "DropoutGrad",
                     {{shape}, {shape, OpFill::kMask}},
                     {},
                     1,
                     {Tensor::Scalar<float>(0.4f), kTrue}});
  }
}

}  // namespace

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddArithmetic(cases);
  AddUnary(cases);
  AddProducts(cases);
  AddReductions(cases);
  AddMovement(cases);
  for (OpCase& each : LossOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : ImageOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : FunctionOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : BinaryOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : ReductionOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : MovementOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : EinsumOpCases()) cases.push_back(std::move(each));
  for (OpCase& each : RecurrentOpCases()) cases.push_back(std::move(each));
  return cases;
}

}  // namespace cohort
