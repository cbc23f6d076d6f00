#include "tests/device/op_parity_cases.h"

namespace cohort {

std::vector<OpCase> FunctionOpCases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{5, 67}, Shape{129}}) {
    for (const OpFill fill : {OpFill::kNormal, OpFill::kSpecial}) {
      const OpInput input = {shape, fill};
      for (const char* op :
           {"Abs", "Sign", "Floor", "Ceil", "Round", "Reciprocal", "Erf", "Softplus", "Softsign",
            "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish",
            "Sin", "Cos", "IsNaN"}) {
        cases.push_back({kOnnx, op, {input}});
      }
      for (const char* approximate : {"none", "tanh"}) {
        cases.push_back({kCohort, "Gelu", {input}, {StringAttribute("approximate", approximate)}});
      }
      for (const char* function :
           {"Abs", "Reciprocal", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu", "LeakyRelu",
            "ThresholdedRelu", "HardSigmoid", "HardSwish", "Sin", "Cos", "Gelu", "GeluTanh"}) {
        cases.push_back(
            {kCohort, "UnaryGrad", {{shape}, input}, {StringAttribute("function", function)}});
      }
      for (const char* function : {"Elu", "LeakyRelu", "HardSigmoid", "Selu"}) {
        const auto alpha = FloatAttribute("alpha", 0.3f);
        cases.push_back({kOnnx, function, {input}, {alpha}});
        cases.push_back({kCohort,
                         "UnaryGrad",
                         {{shape}, input},
                         {StringAttribute("function", function), alpha}});
      }
    }
    const OpInput positive = {shape, OpFill::kPositive};
    cases.push_back({kCohort, "Log1p", {positive}});
    cases.push_back(
        {kCohort, "UnaryGrad", {{shape}, positive}, {StringAttribute("function", "Log1p")}});
    cases.push_back({kOnnx, "Not", {{shape, OpFill::kMask}}});
  }
  return cases;
}

}  // namespace cohort
