#include "coordinator/layers/activation.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "coordinator/layers/layer.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

// The graph and the settings from which the nodes of a function are made.
struct Context {
  const Nodes& nodes;
  const Activation& activation;
  ModelMode mode;
  int64_t axis;  // the axis of a function that works along one, where axis 0 is the batch
  int64_t rank;  // the number of axes, the batch included
  int64_t size;  // the size of the axis

  double Argument(const char* name, double otherwise) const {
    const auto found = activation.arguments.find(name);
    return found == activation.arguments.end() ? otherwise : found->second;
  }
};

struct ActivationFunction {
  const char* name;
  bool elementwise;
  std::string (*add)(const std::string& x, const Context& context);
};

std::string Linear(const std::string& x, const Context&) { return x; }

std::string Relu(const std::string& x, const Context& c) { return c.nodes.Op("Relu", {x}); }
std::string Sigmoid(const std::string& x, const Context& c) { return c.nodes.Op("Sigmoid", {x}); }
std::string Tanh(const std::string& x, const Context& c) { return c.nodes.Op("Tanh", {x}); }
std::string Exp(const std::string& x, const Context& c) { return c.nodes.Op("Exp", {x}); }
std::string Softplus(const std::string& x, const Context& c) { return c.nodes.Op("Softplus", {x}); }
std::string Softsign(const std::string& x, const Context& c) { return c.nodes.Op("Softsign", {x}); }
std::string Selu(const std::string& x, const Context& c) { return c.nodes.Op("Selu", {x}); }
std::string Elu(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("Elu", {x},
                            {FloatAttribute("alpha", static_cast<float>(c.Argument("alpha", 1)))});
}

// Returns the attribute `axis`. The last axis is written as -1, whatever the rank is.
onnx::AttributeProto AxisAttribute(const Context& c) {
  return IntAttribute("axis", c.axis == c.rank - 1 ? -1 : c.axis);
}

std::string Softmax(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("Softmax", {x}, {AxisAttribute(c)});
}

std::string LogSoftmax(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("LogSoftmax", {x}, {AxisAttribute(c)});
}

// Computes min(max(x, 0), 6). At x = 6 the gradient is 0, as in TensorFlow: of two equal elements,
// Min gives the gradient to the first one.
std::string Relu6(const std::string& x, const Context& c) {
  return c.nodes.Op("Min", {c.nodes.Number(6), Relu(x, c)});
}

std::string LeakyRelu(const std::string& x, const Context& c) {
  const auto slope = static_cast<float>(c.Argument("negative_slope", 0.2));
  return c.nodes.graph().Op("LeakyRelu", {x}, {FloatAttribute("alpha", slope)});
}

// Computes max(x, 0) + min(0, alpha (exp(x / alpha) - 1)). At 0 both terms have the gradient 1, as
// in TensorFlow.
std::string Celu(const std::string& x, const Context& c) {
  const std::string zero = c.nodes.Number(0);
  const std::string alpha = c.nodes.Number(c.Argument("alpha", 1));
  const std::string curve = c.nodes.Op("Elu", {c.nodes.Div(c.nodes.Op("Min", {x, zero}), alpha)});
  return c.nodes.Add(c.nodes.Op("Max", {x, zero}), c.nodes.Mul(curve, alpha));
}

// Computes a line that is clipped to [0, 1]. Where the line meets a bound, the gradient is that of
// the line for Keras 2, which clips, and 0 for Keras 3, which uses relu6.
std::string HardSigmoid(const std::string& x, const Context& c) {
  if (c.activation.keras.IsKeras2()) {
    return c.nodes.graph().Op("HardSigmoid", {x},
                              {FloatAttribute("alpha", 0.2f), FloatAttribute("beta", 0.5f)});
  }
  return c.nodes.Mul(Relu6(c.nodes.Add(x, c.nodes.Number(3)), c), c.nodes.Number(1.0 / 6));
}

// Only Keras 3 has this function.
std::string HardSilu(const std::string& x, const Context& c) {
  const std::string part = Relu6(c.nodes.Add(x, c.nodes.Number(3)), c);
  return c.nodes.Mul(x, c.nodes.Mul(part, c.nodes.Number(1.0 / 6)));
}

// Computes x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
std::string GeluByTanh(const std::string& x, const Context& c) {
  const std::string cube = c.nodes.Mul(c.nodes.Mul(x, x), x);
  const std::string sum = c.nodes.Add(x, c.nodes.Mul(cube, c.nodes.Number(0.044715)));
  const std::string curve =
      c.nodes.Op("Tanh", {c.nodes.Mul(sum, c.nodes.Number(0.79788456080286536))});
  return c.nodes.Mul(c.nodes.Mul(x, c.nodes.Number(0.5)), c.nodes.Add(curve, c.nodes.Number(1)));
}

// Computes gelu of ONNX's own operators, because an exported model may have no others, and opset 17
// has no Gelu.
std::string Gelu(const std::string& x, const Context& c) {
  if (c.Argument("approximate", 0) != 0) return GeluByTanh(x, c);
  if (c.mode != ModelMode::kPrediction) return c.nodes.graph().Op("Gelu", {x}, {}, kCohortDomain);
  const std::string erf = c.nodes.Op("Erf", {c.nodes.Mul(x, c.nodes.Number(0.70710678118654752))});
  const std::string factor = c.nodes.Add(erf, c.nodes.Number(1));
  return c.nodes.Mul(c.nodes.Mul(x, c.nodes.Number(0.5)), factor);
}

std::string Silu(const std::string& x, const Context& c) { return c.nodes.Mul(x, Sigmoid(x, c)); }

std::string Mish(const std::string& x, const Context& c) {
  return c.nodes.Mul(x, Tanh(Softplus(x, c), c));
}

std::string LogSigmoid(const std::string& x, const Context& c) {
  return c.nodes.Op("Neg", {Softplus(c.nodes.Op("Neg", {x}), c)});
}

std::string Clip(const std::string& x, double low, double high, const Context& c) {
  return c.nodes.Op("Clip", {x, c.nodes.Number(low), c.nodes.Number(high)});
}

std::string HardTanh(const std::string& x, const Context& c) { return Clip(x, -1, 1, c); }

std::string TanhShrink(const std::string& x, const Context& c) {
  return c.nodes.Sub(x, Tanh(x, c));
}

std::string SoftShrink(const std::string& x, const Context& c) {
  const double threshold = c.Argument("threshold", 0.5);
  return c.nodes.Sub(x, Clip(x, -threshold, threshold, c));
}

std::string HardShrink(const std::string& x, const Context& c) {
  const std::string threshold = c.nodes.Number(c.Argument("threshold", 0.5));
  const std::string far = c.nodes.Op("Greater", {c.nodes.Op("Abs", {x}), threshold});
  return c.nodes.Op("Where", {far, x, c.nodes.Number(0)});
}

// Returns x where x is above the threshold, and the argument `default` elsewhere.
std::string Threshold(const std::string& x, const Context& c) {
  const std::string above = c.nodes.Op("Greater", {x, c.nodes.Number(c.Argument("threshold", 0))});
  return c.nodes.Op("Where", {above, x, c.nodes.Number(c.Argument("default", 0))});
}

// Computes (x + sqrt(x^2 + b)) / 2.
std::string Squareplus(const std::string& x, const Context& c) {
  const std::string b = c.nodes.Number(c.Argument("b", 4));
  const std::string root = c.nodes.Op("Sqrt", {c.nodes.Add(c.nodes.Mul(x, x), b)});
  return c.nodes.Mul(c.nodes.Add(x, root), c.nodes.Number(0.5));
}

// Computes 0 for x <= -1, (x + 1)^2 / 4 for x between -1 and 1, and x for x >= 1.
std::string SparsePlus(const std::string& x, const Context& c) {
  const std::string part = c.nodes.Add(Clip(x, -1, 1, c), c.nodes.Number(1));
  const std::string curve = c.nodes.Mul(c.nodes.Mul(part, part), c.nodes.Number(0.25));
  return c.nodes.Op("Where", {c.nodes.Op("Less", {x, c.nodes.Number(1)}), curve, x});
}

// Computes 0 for x <= -1, (x + 1) / 2 for x between -1 and 1, and 1 for x >= 1. At -1 and 1 the
// gradient is 0.
std::string SparseSigmoid(const std::string& x, const Context& c) {
  const std::string line = Relu(c.nodes.Add(x, c.nodes.Number(1)), c);
  return c.nodes.Op("Min", {c.nodes.Number(1), c.nodes.Mul(line, c.nodes.Number(0.5))});
}

// Multiplies one half of an axis by the sigmoid of the other.
std::string Glu(const std::string& x, const Context& c) {
  const int64_t half = c.size / 2;
  return c.nodes.Mul(c.nodes.Slice(x, c.axis, 0, half),
                     Sigmoid(c.nodes.Slice(x, c.axis, half, c.size), c));
}

// Computes sparsemax as Keras does. Keras's threshold adds up the sums of all elements of the
// support, where the definition takes the sum of the last element only. So not every result adds up
// to 1.
std::string Sparsemax(const std::string& x, const Context& c) {
  const Nodes& n = c.nodes;
  const std::string sorted =
      n.graph().OpN("TopK", {x, n.Ints({c.size})}, 2, {IntAttribute("axis", c.axis)})[0];
  const std::string axis = n.graph().Constant("axis", Tensor::Scalar(c.axis));
  const std::string sums = n.Op("CumSum", {sorted, axis});
  std::vector<float> numbers(static_cast<size_t>(c.size));
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  std::vector<int64_t> dims(static_cast<size_t>(c.rank - c.axis), 1);
  dims[0] = c.size;
  const std::string means =
      n.Div(n.Sub(sums, n.Number(1)), n.Floats(numbers, Shape(absl::MakeConstSpan(dims))));
  const std::string support = n.Op("Greater", {sorted, means});
  const std::string total =
      n.Reduce("ReduceSum", n.Op("Where", {support, sums, n.Number(0)}), {c.axis});
  const std::string count = n.Reduce("ReduceSum", n.Cast(support, DType::kFloat32), {c.axis});
  const std::string tau = n.Div(n.Sub(total, n.Number(1)), count);
  return n.Op("Max", {n.Sub(x, tau), n.Number(0)});
}

constexpr ActivationFunction kFunctions[] = {
    {"linear", true, Linear},
    {"relu", true, Relu},
    {"sigmoid", true, Sigmoid},
    {"tanh", true, Tanh},
    {"softmax", false, Softmax},
    {"celu", true, Celu},
    {"elu", true, Elu},
    {"exponential", true, Exp},
    {"gelu", true, Gelu},
    {"glu", false, Glu},
    {"hard_shrink", true, HardShrink},
    {"hard_sigmoid", true, HardSigmoid},
    {"hard_silu", true, HardSilu},
    {"hard_swish", true, HardSilu},
    {"hard_tanh", true, HardTanh},
    {"leaky_relu", true, LeakyRelu},
    {"log_sigmoid", true, LogSigmoid},
    {"log_softmax", false, LogSoftmax},
    {"log_softmax_v2", false, LogSoftmax},
    {"mish", true, Mish},
    {"relu6", true, Relu6},
    {"selu", true, Selu},
    {"silu", true, Silu},
    {"soft_shrink", true, SoftShrink},
    {"softplus", true, Softplus},
    {"softsign", true, Softsign},
    {"sparse_plus", true, SparsePlus},
    {"sparse_sigmoid", true, SparseSigmoid},
    {"sparsemax", false, Sparsemax},
    {"squareplus", true, Squareplus},
    {"swish", true, Silu},
    {"tanh_shrink", true, TanhShrink},
    {"threshold", true, Threshold},
};

// Returns the axis along which a function works, where axis 0 is the batch.
int64_t AxisOf(const Activation& activation, const Shape& shape) {
  const auto found = activation.arguments.find("axis");
  const int64_t axis =
      found == activation.arguments.end() ? -1 : static_cast<int64_t>(found->second);
  return axis < 0 ? axis + shape.rank() + 1 : axis;
}

const ActivationFunction& FunctionOf(const std::string& name) {
  return *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                       [&](const ActivationFunction& one) { return one.name == name; });
}

}  // namespace

const std::vector<std::string>& ActivationNames() {
  static const auto* const kNames = [] {
    auto* const names = new std::vector<std::string>();
    for (const ActivationFunction& one : kFunctions) {
      if (one.add != Threshold) names->push_back(one.name);
    }
    return names;
  }();
  return *kNames;
}

bool IsElementwise(const std::string& activation) { return FunctionOf(activation).elementwise; }

absl::StatusOr<TensorType> ActivatedType(const Activation& activation, const std::string& layer,
                                         const Shape& shape) {
  if (IsElementwise(activation.name)) return TensorType{.shape = shape};
  // Functions that are not elementwise need an axis to work along.
  if (shape.rank() < 1) {
    return WrongInput(
        layer, shape,
        absl::StrCat(activation.name, " needs at least one dimension beside the batch"));
  }
  const int64_t axis = AxisOf(activation, shape);
  if (axis < 1 || axis > shape.rank()) {
    return WrongInput(layer, shape, absl::StrCat("the axis of ", activation.name, " is ", axis));
  }
  if (activation.name != "glu") return TensorType{.shape = shape};
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  int64_t& halved = dims[static_cast<size_t>(axis) - 1];
  if (halved % 2 != 0) {
    return WrongInput(layer, shape,
                      absl::StrCat("glu needs a ", axis == shape.rank() ? "last " : "",
                                   "dimension of an even size"));
  }
  halved /= 2;
  return TensorType{.shape = Shape(dims)};
}

LayerValue Activate(const Activation& activation, const LayerValue& x, LayerTarget& target) {
  const Nodes nodes(target.graph);
  const ActivationFunction& function = FunctionOf(activation.name);
  const Shape& shape = x.type.shape;
  const int64_t axis = AxisOf(activation, shape);
  const bool has_axis = axis >= 1 && axis <= shape.rank();
  const Context context{
      nodes, activation,       target.mode,
      axis,  shape.rank() + 1, has_axis ? shape.dim(static_cast<int>(axis) - 1) : 1};
  // The input of a final softmax or sigmoid is kept as the logits, in Keras's order of dimensions,
  // because crossentropies are computed from the logits.
  const bool has_logits =
      (activation.name == "softmax" && axis == shape.rank()) || activation.name == "sigmoid";
  if (function.elementwise && !has_logits) {
    return {function.add(x.value, context), "", x.channels_first};
  }
  const std::string input = ChannelsLast(x, nodes);
  return {function.add(input, context), has_logits ? input : ""};
}

}  // namespace cohort
