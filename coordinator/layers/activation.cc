#include "coordinator/layers/activation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "coordinator/layers/layer.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

// What a function is computed with.
struct Context {
  const Nodes& nodes;
  const KerasVersion& keras;
  ModelMode mode;
  int64_t last_dim;  // the size of the last axis
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
std::string Elu(const std::string& x, const Context& c) { return c.nodes.Op("Elu", {x}); }
std::string Celu(const std::string& x, const Context& c) { return c.nodes.Op("Celu", {x}); }
std::string HardSilu(const std::string& x, const Context& c) {
  return c.nodes.Op("HardSwish", {x});
}

std::string Softmax(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("Softmax", {x}, {IntAttribute("axis", -1)});
}

std::string LogSoftmax(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("LogSoftmax", {x}, {IntAttribute("axis", -1)});
}

// At 6 the gradient is 0, as in TensorFlow: of two smallest elements Min gives it to the first.
std::string Relu6(const std::string& x, const Context& c) {
  return c.nodes.Op("Min", {c.nodes.Number(6), Relu(x, c)});
}

std::string LeakyRelu(const std::string& x, const Context& c) {
  return c.nodes.graph().Op("LeakyRelu", {x}, {FloatAttribute("alpha", 0.2f)});
}

std::string HardSigmoid(const std::string& x, const Context& c) {
  const float slope = c.keras.IsKeras2() ? 0.2f : 1.0f / 6;
  return c.nodes.graph().Op("HardSigmoid", {x},
                            {FloatAttribute("alpha", slope), FloatAttribute("beta", 0.5f)});
}

// An exported model may have ONNX's own operators only, of which none of opset 17 is Gelu.
std::string Gelu(const std::string& x, const Context& c) {
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
  return c.nodes.Sub(x, Clip(x, -0.5, 0.5, c));
}

std::string HardShrink(const std::string& x, const Context& c) {
  const std::string far = c.nodes.Op("Greater", {c.nodes.Op("Abs", {x}), c.nodes.Number(0.5)});
  return c.nodes.Op("Where", {far, x, c.nodes.Number(0)});
}

// Computes (x + sqrt(x^2 + 4)) / 2.
std::string Squareplus(const std::string& x, const Context& c) {
  const std::string root = c.nodes.Op("Sqrt", {c.nodes.Add(c.nodes.Mul(x, x), c.nodes.Number(4))});
  return c.nodes.Mul(c.nodes.Add(x, root), c.nodes.Number(0.5));
}

// Is 0 up to -1, (x + 1)^2 / 4 up to 1, and x from there.
std::string SparsePlus(const std::string& x, const Context& c) {
  const std::string part = c.nodes.Add(Clip(x, -1, 1, c), c.nodes.Number(1));
  const std::string curve = c.nodes.Mul(c.nodes.Mul(part, part), c.nodes.Number(0.25));
  return c.nodes.Op("Where", {c.nodes.Op("Less", {x, c.nodes.Number(1)}), curve, x});
}

std::string SparseSigmoid(const std::string& x, const Context& c) {
  return c.nodes.Mul(c.nodes.Add(Clip(x, -1, 1, c), c.nodes.Number(1)), c.nodes.Number(0.5));
}

// Multiplies one half of the last axis by the sigmoid of the other.
std::string Glu(const std::string& x, const Context& c) {
  const int64_t half = c.last_dim / 2;
  return c.nodes.Mul(c.nodes.Slice(x, -1, 0, half),
                     Sigmoid(c.nodes.Slice(x, -1, half, c.last_dim), c));
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
    {"squareplus", true, Squareplus},
    {"swish", true, Silu},
    {"tanh_shrink", true, TanhShrink},
};

const ActivationFunction& FunctionOf(const std::string& name) {
  return *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                       [&](const ActivationFunction& one) { return one.name == name; });
}

}  // namespace

const std::vector<std::string>& ActivationNames() {
  static const auto* const kNames = [] {
    auto* const names = new std::vector<std::string>();
    for (const ActivationFunction& one : kFunctions) names->push_back(one.name);
    return names;
  }();
  return *kNames;
}

bool IsElementwise(const std::string& activation) { return FunctionOf(activation).elementwise; }

absl::StatusOr<TensorType> ActivatedType(const std::string& activation, const std::string& layer,
                                         const Shape& shape) {
  // These functions need an axis to work along.
  if (!IsElementwise(activation) && shape.rank() < 1) {
    return WrongInput(layer, shape,
                      absl::StrCat(activation, " needs at least one dimension beside the batch"));
  }
  if (activation != "glu") return TensorType{.shape = shape};
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  if (dims.back() % 2 != 0) {
    return WrongInput(layer, shape, "glu needs a last dimension of an even size");
  }
  dims.back() /= 2;
  return TensorType{.shape = Shape(dims)};
}

LayerValue Activate(const Activation& activation, const LayerValue& x, LayerTarget& target) {
  const Nodes nodes(target.graph);
  const ActivationFunction& function = FunctionOf(activation.name);
  const Shape& shape = x.type.shape;
  const Context context{nodes, activation.keras, target.mode,
                        shape.rank() > 0 ? shape.dim(shape.rank() - 1) : 1};
  // A loss is computed from the input of a final softmax or sigmoid, in Keras's order.
  const bool has_logits = activation.name == "softmax" || activation.name == "sigmoid";
  if (function.elementwise && !has_logits) {
    return {function.add(x.value, context), "", x.channels_first};
  }
  const std::string input = ChannelsLast(x, nodes);
  return {function.add(input, context), has_logits ? input : ""};
}

}  // namespace cohort
