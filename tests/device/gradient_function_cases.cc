#include "common/program/cohort_ops.h"
#include "tests/device/gradient_cases.h"

// Functions of one tensor.

namespace cohort {
namespace {

// ONNX has Celu for float32 alone. So it is Celu in float32, and in float64 the formula in other
// operators, whose gradient the float32 one is compared with.
BuildCase CeluOf(float alpha) {
  return [=](GraphBuilder& builder, const std::vector<std::string>& x, DType dtype) {
    if (dtype == DType::kFloat32) {
      return builder.Op("Celu", x, {FloatAttribute("alpha", alpha)});
    }
    const auto real = [&](double value) {
      return builder.Constant("real", Tensor::Scalar<double>(value));
    };
    const auto scale = real(static_cast<double>(alpha));
    const auto power = builder.Op("Exp", {builder.Op("Div", {x[0], scale})});
    const auto below = builder.Op("Mul", {scale, builder.Op("Sub", {power, real(1)})});
    return builder.Op("Where", {builder.Op("Greater", {x[0], real(0)}), x[0], below});
  };
}

}  // namespace

std::vector<GradientCase> FunctionGradientCases() {
  const auto alpha = [](float value) { return FloatAttribute("alpha", value); };
  std::vector<GradientCase> cases;
  const auto add = [&](const std::string& name, const std::string& op,
                       const std::vector<onnx::AttributeProto>& attributes = {}, Fill fill = {},
                       const std::string& domain = "") {
    cases.push_back({name, {{{-1, 4}, fill}}, OneNode(op, attributes, domain)});
    cases.push_back({name + "_empty", {{{0, 3}, fill}}, OneNode(op, attributes, domain)});
    cases.push_back({name + "_scalar", {{{}, fill}}, OneNode(op, attributes, domain)});
  };
  for (const std::string op : {"Abs", "Erf", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu",
                               "HardSigmoid", "HardSwish", "Sin", "Cos"}) {
    add(op, op);
  }
  // Nothing flows through a function that is constant almost everywhere.
  for (const std::string op : {"Sign", "Floor", "Ceil", "Round"}) add(op, op);
  add("Reciprocal", "Reciprocal", {}, Fill::kPositive);
  add("Elu_alpha", "Elu", {alpha(0.3f)});
  for (const float each : {1.0f, 0.7f}) {
    const std::string name = each == 1 ? "Celu" : "Celu_alpha";
    cases.push_back({name, {{{-1, 4}}}, CeluOf(each)});
    cases.push_back({name + "_empty", {{{0, 3}}}, CeluOf(each)});
    cases.push_back({name + "_scalar", {{{}}}, CeluOf(each)});
  }
  add("LeakyRelu_alpha", "LeakyRelu", {alpha(0.3f)});
  add("ThresholdedRelu", "ThresholdedRelu", {alpha(0.4f)});
  add("Selu_attributes", "Selu", {alpha(1.3f), FloatAttribute("gamma", 0.8f)});
  add("HardSigmoid_attributes", "HardSigmoid", {alpha(0.6f), FloatAttribute("beta", 0.4f)});
  add("HardSigmoid_falling", "HardSigmoid", {alpha(-0.6f), FloatAttribute("beta", 0.4f)});
  add("Gelu", "Gelu", {}, Fill::kReal, kCohortDomain);
  add("Gelu_tanh", "Gelu", {StringAttribute("approximate", "tanh")}, Fill::kReal, kCohortDomain);
  add("Log1p", "Log1p", {}, Fill::kPositive, kCohortDomain);
  return cases;
}

}  // namespace cohort
