#include <numeric>
#include <set>
#include <utility>

#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// The section below has the gradient rules of arithmetic and activation operators.

// Sets both gradients of y = a + b to dy. The gradient of a broadcast input is summed over the axes
// of the broadcast.
absl::Status Add(GradientSite& site) {
  for (const int i : {0, 1}) {
    if (site.Wants(i)) site.SetReduced(i, site.dy());
  }
  return absl::OkStatus();
}

absl::Status Sub(GradientSite& site) {
  if (site.Wants(0)) site.SetReduced(0, site.dy());
  if (site.Wants(1)) site.SetReduced(1, site.Onnx("Neg", {site.dy()}));
  return absl::OkStatus();
}

absl::Status Mul(GradientSite& site) {
  for (const int i : {0, 1}) {
    // In y = a * b, the gradient of one factor is dy times the other factor.
    if (site.Wants(i)) site.SetReduced(i, site.Onnx("Mul", {site.dy(), site.input(1 - i)}));
  }
  return absl::OkStatus();
}

// Sets the gradients of y = a / b: da = dy / b and db = -dy * y / b.
absl::Status Div(GradientSite& site) {
  const std::string ratio = site.Onnx("Div", {site.dy(), site.input(1)});
  if (site.Wants(0)) site.SetReduced(0, ratio);
  if (site.Wants(1)) {
    site.SetReduced(1, site.Onnx("Neg", {site.Onnx("Mul", {ratio, site.output(0)})}));
  }
  return absl::OkStatus();
}

absl::Status Neg(GradientSite& site) {
  site.Set(0, site.Onnx("Neg", {site.dy()}));
  return absl::OkStatus();
}

// Sets the gradient of y = sqrt(x): dx = dy / (2 y).
absl::Status Sqrt(GradientSite& site) {
  const std::string half = site.Onnx("Mul", {site.dy(), site.Scalar(0.5)});
  site.Set(0, site.Onnx("Div", {half, site.output(0)}));
  return absl::OkStatus();
}

absl::Status Exp(GradientSite& site) {
  // The derivative of exp(x) is exp(x), which is the node's output.
  site.Set(0, site.Onnx("Mul", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Log(GradientSite& site) {
  site.Set(0, site.Onnx("Div", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

absl::Status Relu(GradientSite& site) {
  site.Set(0, site.Cohort("ReluGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Sigmoid(GradientSite& site) {
  site.Set(0, site.Cohort("SigmoidGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Tanh(GradientSite& site) {
  site.Set(0, site.Cohort("TanhGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Softmax(GradientSite& site) {
  site.Set(0, site.Cohort("SoftmaxGrad", {site.dy(), site.output(0)},
                          {IntAttribute("axis", site.Int("axis", -1))}));
  return absl::OkStatus();
}

absl::Status LogSoftmax(GradientSite& site) {
  site.Set(0, site.Cohort("LogSoftmaxGrad", {site.dy(), site.output(0)},
                          {IntAttribute("axis", site.Int("axis", -1))}));
  return absl::OkStatus();
}

// The section below has the gradient rules of MatMul and Gemm.

// A factor of a Gemm: a matrix, and whether the Gemm uses the transpose of the matrix.
struct Factor {
  std::string value;
  bool transposed;
};

// Adds a Gemm node that multiplies two factors, and returns the name of the product.
std::string Product(GradientSite& site, const Factor& a, const Factor& b, float alpha = 1) {
  std::vector<onnx::AttributeProto> attributes = {IntAttribute("transA", a.transposed ? 1 : 0),
                                                  IntAttribute("transB", b.transposed ? 1 : 0)};
  if (alpha != 1) attributes.push_back(FloatAttribute("alpha", alpha));
  return site.Onnx("Gemm", {a.value, b.value}, std::move(attributes));
}

// Sets the gradients of Y = alpha * op(A) op(B) for matrices, where op is the transpose or the
// identity: d op(A) = alpha * dY op(B)' and d op(B) = alpha * op(A)' dY. If op transposes a factor,
// the factor's gradient is the transpose of d op(factor).
void SetMatrixGradients(GradientSite& site, const Factor& a, const Factor& b, float alpha) {
  const Factor dy = {site.dy(), false};
  const Factor dy_transposed = {site.dy(), true};
  if (site.Wants(0)) {
    site.Set(0, a.transposed ? Product(site, b, dy_transposed, alpha)
                             : Product(site, dy, {b.value, !b.transposed}, alpha));
  }
  if (site.Wants(1)) {
    site.Set(1, b.transposed ? Product(site, dy_transposed, a, alpha)
                             : Product(site, {a.value, !a.transposed}, dy, alpha));
  }
}

// Adds a node that transposes each matrix of a batch.
std::string SwapLastTwo(GradientSite& site, const std::string& value, int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return site.Onnx("Transpose", {value}, {IntsAttribute("perm", perm)});
}

// A factor of a MatMul in which a factor has a rank other than 2. As in ONNX and NumPy, a vector
// counts as a matrix of one row (A) or one column (B), and leading axes are broadcast.
struct BatchedFactor {
  std::string value;
  int rank;
};

// Returns input `input` of a MatMul as a matrix or a batch of matrices; a vector is reshaped to a
// matrix.
BatchedFactor AsMatrix(GradientSite& site, int input, int rank) {
  if (rank >= 2) return {site.input(input), rank};
  const std::vector<int64_t> shape =
      input == 0 ? std::vector<int64_t>{1, -1} : std::vector<int64_t>{-1, 1};
  return {site.Onnx("Reshape", {site.input(input), site.Int64s(shape)}), 2};
}

// Returns dY with the axes that MatMul dropped because a factor was a vector. In the shape argument
// of Reshape, a 0 copies a dimension.
std::string WithDroppedAxes(GradientSite& site, int rank_a, int rank_b, int rank_y) {
  if (rank_a >= 2 && rank_b >= 2) return site.dy();
  std::vector<int64_t> shape(static_cast<size_t>(rank_y), 0);
  if (rank_a == 1 && rank_b == 1) {
    // The product of two vectors is a scalar, whose shape has no dimension to copy.
    shape = {1, 1};
  } else if (rank_a == 1) {
    // A vector A was a matrix of one row, so dY lacks the second to last axis of the matrix
    // product.
    shape.back() = 1;
    shape.push_back(-1);
  } else {
    shape.push_back(1);
  }
  return site.Onnx("Reshape", {site.dy(), site.Int64s(shape)});
}

// Sets the gradient of one input of MatMul, given the gradient `product` of the matrix that stands
// for the input. Broadcast axes are summed, and the gradient of a vector becomes a vector.
void SetBatched(GradientSite& site, int input, int rank, const BatchedFactor& factor,
                const std::string& product) {
  const std::string reduced = site.Cohort("ReduceToShapeOf", {product, factor.value});
  site.Set(input, rank == 1 ? site.Cohort("ReshapeLike", {reduced, site.input(input)}) : reduced);
}

absl::Status MatMul(GradientSite& site) {
  const auto& types = site.forward().types();
  const auto rank_a = types.rank(site.input(0));
  const auto rank_b = types.rank(site.input(1));
  const auto rank_y = types.rank(site.output(0));
  if (!rank_a || !rank_b || !rank_y) {
    return absl::InvalidArgumentError("the ranks of its inputs are unknown");
  }
  // The gradients of a product of two matrices are Gemms. Gemm can transpose its inputs, so no
  // reshaping and no transposed copies are needed.
  if (*rank_a == 2 && *rank_b == 2) {
    SetMatrixGradients(site, {site.input(0), false}, {site.input(1), false}, 1);
    return absl::OkStatus();
  }
  const std::string dy = WithDroppedAxes(site, *rank_a, *rank_b, *rank_y);
  const BatchedFactor a = AsMatrix(site, 0, *rank_a);
  const BatchedFactor b = AsMatrix(site, 1, *rank_b);
  if (site.Wants(0)) {
    const std::string da = site.Onnx("MatMul", {dy, SwapLastTwo(site, b.value, b.rank)});
    SetBatched(site, 0, *rank_a, a, da);
  }
  if (site.Wants(1)) {
    const std::string db = site.Onnx("MatMul", {SwapLastTwo(site, a.value, a.rank), dy});
    SetBatched(site, 1, *rank_b, b, db);
  }
  return absl::OkStatus();
}

absl::Status Gemm(GradientSite& site) {
  SetMatrixGradients(site, {site.input(0), site.Int("transA", 0) != 0},
                     {site.input(1), site.Int("transB", 0) != 0}, site.Float("alpha", 1));
  if (site.Wants(2)) {
    // Gemm adds beta times its third input, which may have been broadcast.
    const float beta = site.Float("beta", 1);
    site.SetReduced(
        2, beta == 1 ? site.dy() : site.Onnx("Mul", {site.dy(), site.Scalar(double{beta})}));
  }
  return absl::OkStatus();
}

// The section below has the gradient rules of operators that change shapes, join tensors, or reduce
// tensors.

absl::Status Identity(GradientSite& site) {
  site.Set(0, site.dy());
  return absl::OkStatus();
}

// Sets the gradient of Reshape or Flatten. Both keep the elements and their order, so the gradient
// is dy in the shape of the input.
absl::Status SameElements(GradientSite& site) {
  if (site.Wants(0)) site.Set(0, site.Cohort("ReshapeLike", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

// Sets the gradient of Transpose. Without the attribute perm, Transpose reverses the axes, and so
// does its gradient.
absl::Status Transpose(GradientSite& site) {
  const auto* perm = site.Attribute("perm");
  if (perm == nullptr) {
    site.Set(0, site.Onnx("Transpose", {site.dy()}));
    return absl::OkStatus();
  }
  std::vector<int64_t> inverse(static_cast<size_t>(perm->ints_size()));
  for (int i = 0; i < perm->ints_size(); ++i) {
    // The gradient of Transpose is a Transpose with the inverse permutation.
    inverse[static_cast<size_t>(perm->ints(i))] = i;
  }
  site.Set(0, site.Onnx("Transpose", {site.dy()}, {IntsAttribute("perm", inverse)}));
  return absl::OkStatus();
}

absl::Status Concat(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  const int count = site.node().input_size();
  // ConcatGrad reads only the shapes of Concat's inputs. These shapes may be unknown until the
  // graph runs.
  for (int i = 0; i < count; ++i) inputs.push_back(site.input(i));
  const auto pieces = site.builder().OpN(
      "ConcatGrad", inputs, count, {IntAttribute("axis", site.Int("axis", 0))}, kCohortDomain);
  for (int i = 0; i < count; ++i) {
    if (site.Wants(i)) site.Set(i, pieces[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

absl::Status Cast(GradientSite& site) {
  // The gradient of a Cast is cast back to the type of the Cast's input.
  const DType from = site.forward().types().dtype(site.input(0));
  site.Set(0, site.Onnx("Cast", {site.dy()}, {IntAttribute("to", static_cast<int64_t>(from))}));
  return absl::OkStatus();
}

absl::Status Gather(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  site.Set(0, site.Cohort("GatherGrad", {site.dy(), site.input(1), site.input(0)},
                          {IntAttribute("axis", site.Int("axis", 0))}));
  return absl::OkStatus();
}

absl::Status ReduceMean(GradientSite& site) {
  auto attributes = site.CopyAttributes({"axes", "keepdims"});
  attributes.push_back(IntAttribute("mean", 1));
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

absl::Status ReduceSum(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  auto attributes = site.CopyAttributes({"keepdims"});
  std::vector<int64_t> axes;
  if (!site.input(1).empty()) {
    const auto constant = site.forward().ConstantInts(site.input(1));
    // The axes are an attribute of ReduceGrad, so they must be known before the graph runs.
    if (!constant) return absl::InvalidArgumentError("its axes are not a constant");
    axes = *constant;
  }
  // An empty list of axes means all axes. If the attribute noop_with_empty_axes is set, it means no
  // axes, and ReduceSum is the identity.
  if (axes.empty() && site.Int("noop_with_empty_axes", 0) != 0) return Identity(site);
  if (!axes.empty()) attributes.push_back(IntsAttribute("axes", axes));
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

// The section below has the gradient rules of losses and of Dropout.

// Sets the gradient of SoftmaxCrossEntropyLoss with respect to the scores (input 0). AddGradients
// has given the node its second output, log_prob.
absl::Status SoftmaxCrossEntropyLoss(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string& log_prob = site.output(1);
  std::string gradient;
  // The scores get one gradient from the loss, and a second one from log_prob if other nodes use
  // log_prob.
  if (!site.dy(0).empty()) {
    std::vector<std::string> inputs = {site.dy(0), log_prob, site.input(1)};
    if (!site.input(2).empty()) inputs.push_back(site.input(2));
    gradient = site.Cohort("SoftmaxCrossEntropyGrad", std::move(inputs),
                           site.CopyAttributes({"reduction", "ignore_index"}));
  }
  if (!site.dy(1).empty()) {
    const std::string direct =
        site.Cohort("LogSoftmaxGrad", {site.dy(1), log_prob}, {IntAttribute("axis", 1)});
    gradient = gradient.empty() ? direct : site.Onnx("Add", {gradient, direct});
  }
  site.Set(0, gradient);
  return absl::OkStatus();
}

// Sets the gradient of Dropout with respect to its data input. AddGradients has given the node its
// second output, the mask.
absl::Status Dropout(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> inputs = {site.dy(), site.output(1), site.input(1), site.input(2)};
  // In ONNX, a node's list of inputs must not end with absent inputs.
  while (inputs.back().empty()) inputs.pop_back();
  site.Set(0, site.Cohort("DropoutGrad", std::move(inputs)));
  return absl::OkStatus();
}

// Sets the gradient of CategoricalCrossentropy with respect to y_pred. The labels get no gradient,
// because Keras treats labels as data.
absl::Status CategoricalCrossentropy(GradientSite& site) {
  if (!site.Wants(1)) return absl::OkStatus();
  site.Set(1, site.Cohort("CategoricalCrossentropyGrad", {site.dy(), site.input(0), site.input(1)},
                          site.CopyAttributes({"axis", "from_logits"})));
  return absl::OkStatus();
}

absl::Status SparseCategoricalCrossentropy(GradientSite& site) {
  site.Set(
      1, site.Cohort("SparseCategoricalCrossentropyGrad", {site.dy(), site.input(0), site.input(1)},
                     site.CopyAttributes({"from_logits"})));
  return absl::OkStatus();
}

// The section below has the gradient rules of convolution, pooling, normalization and the operators
// that exchange values between replicas.

// Returns the attributes that describe the windows of a convolution or pooling. The gradient has
// the same windows.
std::vector<onnx::AttributeProto> WindowAttributes(const GradientSite& site) {
  return site.CopyAttributes({"auto_pad", "kernel_shape", "strides", "dilations", "pads", "group",
                              "ceil_mode", "storage_order", "count_include_pad"});
}

absl::Status Conv(GradientSite& site) {
  const auto attributes = WindowAttributes(site);
  if (site.Wants(0)) {
    site.Set(0,
             site.Cohort("ConvInputGrad", {site.dy(), site.input(1), site.input(0)}, attributes));
  }
  if (site.Wants(1)) {
    site.Set(1,
             site.Cohort("ConvWeightGrad", {site.dy(), site.input(0), site.input(1)}, attributes));
  }
  // Conv adds the bias of a channel to every element of the channel, so the bias's gradient is the
  // sum of dy over all axes except the channels.
  if (site.Wants(2)) {
    const auto rank = site.forward().types().rank(site.output(0));
    if (!rank) return absl::InvalidArgumentError("the rank of its result is unknown");
    std::vector<int64_t> axes(static_cast<size_t>(*rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;  // axes 0, 2, 3, ...: all axes except axis 1, the channels
    site.Set(2,
             site.Onnx("ReduceSum", {site.dy(), site.Int64s(axes)}, {IntAttribute("keepdims", 0)}));
  }
  return absl::OkStatus();
}

absl::Status MaxPool(GradientSite& site) {
  site.Set(0, site.Cohort("MaxPoolGrad", {site.dy(), site.input(0)}, WindowAttributes(site)));
  return absl::OkStatus();
}

absl::Status AveragePool(GradientSite& site) {
  site.Set(0, site.Cohort("AveragePoolGrad", {site.dy(), site.input(0)}, WindowAttributes(site)));
  return absl::OkStatus();
}

absl::Status GlobalAveragePool(GradientSite& site) {
  // Axes 0 and 1 of GlobalAveragePool's input are the batch and the channels. The mean is over all
  // later axes.
  const auto rank = site.forward().types().rank(site.input(0));
  if (!rank) return absl::InvalidArgumentError("the rank of its input is unknown");
  std::vector<int64_t> axes(static_cast<size_t>(*rank) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)},
                          {IntsAttribute("axes", axes), IntAttribute("mean", 1)}));
  return absl::OkStatus();
}

// Sets the gradients of BatchNormalization with respect to x, scale and bias. The mean and variance
// that the node is given are data without a gradient, and its running statistics are not trained.
absl::Status BatchNormalization(GradientSite& site) {
  for (int i = 1; i < site.node().output_size(); ++i) {
    if (!site.dy(i).empty()) {
      return absl::InvalidArgumentError("its running statistics have no gradient");
    }
  }
  const bool training = site.Int("training_mode", 0) != 0;
  if (!training && (site.Wants(3) || site.Wants(4))) {
    return absl::InvalidArgumentError("the mean and variance that it is given have no gradient");
  }
  std::vector<std::string> inputs = {site.dy(), site.input(0), site.input(1)};
  // The mean and the variance are inputs only outside training mode. In training mode,
  // BatchNormalizationGrad computes both from x.
  if (!training) {
    inputs.push_back(site.input(3));
    inputs.push_back(site.input(4));
  }
  const auto gradients =
      site.builder().OpN("BatchNormalizationGrad", inputs, 3,
                         site.CopyAttributes({"epsilon", "training_mode"}), kCohortDomain);
  for (int i = 0; i < 3; ++i) {
    if (site.Wants(i)) site.Set(i, gradients[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

// Sets the gradient of an AllReduce, which is an AllReduce of dy with the opposite value of
// of_mean_losses. The x of each replica enters the results of all replicas, so the gradients of all
// results enter the dx of each replica.
absl::Status AllReduce(GradientSite& site) {
  auto attributes = site.CopyAttributes({"reduction"});
  attributes.push_back(IntAttribute("of_mean_losses", 1 - site.Int("of_mean_losses", 0)));
  site.Set(0, site.Cohort("AllReduce", {site.dy()}, std::move(attributes)));
  return absl::OkStatus();
}

absl::Status AllGather(GradientSite& site) {
  site.Set(0, site.Cohort("AllGatherGrad", {site.dy(), site.input(0)},
                          {IntAttribute("axis", site.Int("axis", 0))}));
  return absl::OkStatus();
}

}  // namespace

GradientRules AllGradientRules() {
  return {{"Add", Add},
          {"Sub", Sub},
          {"Mul", Mul},
          {"Div", Div},
          {"Neg", Neg},
          {"Sqrt", Sqrt},
          {"Exp", Exp},
          {"Log", Log},
          {"Relu", Relu},
          {"Sigmoid", Sigmoid},
          {"Tanh", Tanh},
          {"Softmax", Softmax},
          {"LogSoftmax", LogSoftmax},
          {"MatMul", MatMul},
          {"Gemm", Gemm},
          {"Identity", Identity},
          {"Reshape", SameElements},
          {"Flatten", SameElements},
          {"Transpose", Transpose},
          {"Concat", Concat},
          {"Cast", Cast},
          {"Gather", Gather},
          {"ReduceMean", ReduceMean},
          {"ReduceSum", ReduceSum},
          {"SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss},
          {"Dropout", Dropout},
          {"cohort.CategoricalCrossentropy", CategoricalCrossentropy},
          {"cohort.SparseCategoricalCrossentropy", SparseCategoricalCrossentropy},
          {"Conv", Conv},
          {"MaxPool", MaxPool},
          {"AveragePool", AveragePool},
          {"GlobalAveragePool", GlobalAveragePool},
          {"BatchNormalization", BatchNormalization},
          {"cohort.AllReduce", AllReduce},
          {"cohort.AllGather", AllGather}};
}

bool StopsGradient(const onnx::NodeProto& node) {
  if (node.domain() == kCohortDomain) return node.op_type() == "ZerosLike";
  // Operators of ONNX that round, draw random numbers or make constants, so that no gradient flows
  // through them.
  const std::set<std::string> stops = {"Bernoulli",
                                       "Ceil",
                                       "ConstantOfShape",
                                       "EyeLike",
                                       "Floor",
                                       "OneHot",
                                       "RandomNormal",
                                       "RandomNormalLike",
                                       "RandomUniform",
                                       "RandomUniformLike",
                                       "Range",
                                       "Round",
                                       "Sign"};
  return stops.count(node.op_type()) > 0;
}

}  // namespace cohort
