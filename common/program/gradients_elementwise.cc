#include <utility>

#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

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
    // In y = a * b, the gradient of a is dy * b, and the gradient of b is dy * a.
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
  // The derivative of y = exp(x) is exp(x), which is the node's output y.
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

// Sets the gradient of a function whose derivative UnaryGrad knows by the operator's name.
absl::Status Function(GradientSite& site) {
  std::string name = site.node().op_type();
  const onnx::AttributeProto* const approximate = site.Attribute("approximate");
  if (approximate != nullptr && approximate->s() == "tanh") name = "GeluTanh";
  auto attributes = site.CopyAttributes({"alpha", "beta", "gamma"});
  attributes.push_back(StringAttribute("function", name));
  site.Set(0, site.Cohort("UnaryGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

// Returns dy where `condition` holds, and 0 elsewhere. A Where node selects between them; a product
// of dy and 0 would be NaN where dy is infinite.
std::string DyWhere(GradientSite& site, const std::string& condition) {
  return site.Onnx("Where", {condition, site.dy(), site.Scalar(0)});
}

std::string ZeroWhere(GradientSite& site, const std::string& condition) {
  return site.Onnx("Where", {condition, site.Scalar(0), site.dy()});
}

// Sets the gradients of y = x^e: dx = dy * e * x^(e - 1), and de = dy * y * log(x). As in
// TensorFlow, the logarithm of an x that is not positive counts as 0, and nothing shields dx from
// the NaN of e = 0 at x = 0.
absl::Status Pow(GradientSite& site) {
  const DType type = site.forward().types().dtype(site.input(0));
  std::string e = site.input(1);
  if (site.forward().types().dtype(e) != type) {
    e = site.Onnx("Cast", {e}, {IntAttribute("to", static_cast<int64_t>(type))});
  }
  const std::string& x = site.input(0);
  if (site.Wants(0)) {
    const std::string power = site.Onnx("Pow", {x, site.Onnx("Sub", {e, site.Scalar(1)})});
    site.SetReduced(0, site.Onnx("Mul", {site.Onnx("Mul", {site.dy(), e}), power}));
  }
  if (site.Wants(1)) {
    const std::string zero = site.Scalar(0);
    const std::string log =
        site.Onnx("Where", {site.Onnx("Greater", {x, zero}), site.Onnx("Log", {x}), zero});
    const std::string each = site.Onnx("Mul", {site.output(0), log});
    const std::string product = site.Onnx("Mul", {site.dy(), each});
    if (site.forward().types().dtype(site.input(1)) == type) {
      site.SetReduced(1, product);
    } else {
      const auto to = static_cast<int64_t>(site.forward().types().dtype(site.input(1)));
      site.SetReduced(1, site.Onnx("Cast", {product}, {IntAttribute("to", to)}));
    }
  }
  return absl::OkStatus();
}

// Sets the gradients of Max or Min. MaxGrad gives the gradients in the shape of the output; they
// are then summed over broadcast axes.
absl::Status Extremum(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  const int count = site.node().input_size();
  for (int i = 0; i < count; ++i) inputs.push_back(site.input(i));
  const int64_t minimum = site.node().op_type() == "Min" ? 1 : 0;
  const auto gradients = site.builder().OpN("MaxGrad", inputs, count,
                                            {IntAttribute("minimum", minimum)}, kCohortDomain);
  for (int i = 0; i < count; ++i) {
    if (site.Wants(i)) site.SetReduced(i, gradients[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

// Sets the gradients of Sum or Mean of several tensors: dy, for Mean divided by their number.
absl::Status SumOrMean(GradientSite& site) {
  const int count = site.node().input_size();
  std::string each = site.dy();
  if (site.node().op_type() == "Mean") {
    each = site.Onnx("Div", {each, site.Scalar(count)});
  }
  for (int i = 0; i < count; ++i) {
    if (site.Wants(i)) site.SetReduced(i, each);
  }
  return absl::OkStatus();
}

// Sets the gradients of Mod: y = a - n b, where the whole number n is constant almost everywhere:
// da = dy and db = -n dy. The division (a - y) / b gives n up to rounding errors.
absl::Status Mod(GradientSite& site) {
  if (site.Wants(0)) site.SetReduced(0, site.dy());
  if (site.Wants(1)) {
    const std::string multiple = site.Onnx("Sub", {site.input(0), site.output(0)});
    const std::string n = site.Onnx("Round", {site.Onnx("Div", {multiple, site.input(1)})});
    site.SetReduced(1, site.Onnx("Neg", {site.Onnx("Mul", {site.dy(), n})}));
  }
  return absl::OkStatus();
}

// Sets the gradients of PRelu, which is x for positive x and slope * x for negative x. At x = 0
// both gradients are 0, as in Keras, where PRelu is the sum of two rectifiers; PyTorch has dx =
// slope * dy there.
absl::Status PRelu(GradientSite& site) {
  const std::string& x = site.input(0);
  const std::string zero = site.Scalar(0);
  const std::string negative = site.Onnx("Less", {x, zero});
  if (site.Wants(0)) {
    const std::string sloped = site.Onnx("Mul", {site.dy(), site.input(1)});
    const std::string below = site.Onnx("Where", {negative, sloped, zero});
    const std::string positive = site.Onnx("Greater", {x, zero});
    site.Set(0, site.Onnx("Where", {positive, site.dy(), below}));
  }
  if (site.Wants(1)) site.SetReduced(1, site.Onnx("Mul", {DyWhere(site, negative), x}));
  return absl::OkStatus();
}

// Sets the gradients of y = clip(x, min, max). As in TensorFlow, dx is dy also where x equals a
// bound. A bound's gradient is the sum of dy over the elements that lie beyond the bound.
absl::Status Clip(GradientSite& site) {
  if (site.Wants(0)) {
    std::vector<std::string> inputs = {site.dy(), site.input(0), site.input(1), site.input(2)};
    // ONNX does not allow absent inputs at the end of a node's list of inputs, so they are removed.
    while (inputs.back().empty()) inputs.pop_back();
    site.Set(0, site.Cohort("ClipGrad", std::move(inputs)));
  }
  for (const int i : {1, 2}) {
    if (!site.Wants(i)) continue;
    const char* const beyond = i == 1 ? "Less" : "Greater";
    site.SetReduced(i, DyWhere(site, site.Onnx(beyond, {site.input(0), site.input(i)})));
  }
  return absl::OkStatus();
}

absl::Status Where(GradientSite& site) {
  if (site.Wants(1)) site.SetReduced(1, DyWhere(site, site.input(0)));
  if (site.Wants(2)) site.SetReduced(2, ZeroWhere(site, site.input(0)));
  return absl::OkStatus();
}

}  // namespace

void AddElementwiseGradients(GradientRules& rules) {
  rules["Add"] = {Add};
  rules["Sub"] = {Sub};
  rules["Mul"] = {Mul};
  rules["Div"] = {Div};
  rules["Neg"] = {Neg};
  rules["Sqrt"] = {Sqrt};
  rules["Exp"] = {Exp};
  rules["Log"] = {Log};
  rules["Relu"] = {Relu};
  rules["Sigmoid"] = {Sigmoid};
  rules["Tanh"] = {Tanh};
  for (const char* op : {"Abs", "Reciprocal", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu",
                         "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Sin", "Cos",
                         "cohort.Gelu", "cohort.Log1p"}) {
    rules[op] = {Function};
  }
  rules["Pow"] = {Pow};
  rules["Max"] = {Extremum};
  rules["Min"] = {Extremum};
  rules["Sum"] = {SumOrMean};
  rules["Mean"] = {SumOrMean};
  rules["Mod"] = {Mod};
  rules["PRelu"] = {PRelu};
  rules["Clip"] = {Clip};
  rules["Where"] = {Where};
}

}  // namespace cohort
