#include "common/runtime/kernels/unary_functions.h"

namespace cohort {

UnaryParameters ParseUnaryParameters(const std::string& function, AttributeReader& reader) {
  UnaryParameters parameters;
  const auto read = [&](const char* name, float otherwise) -> double {
    return static_cast<double>(reader.Float(name, otherwise));
  };
  if (function == "Elu" || function == "Celu" || function == "ThresholdedRelu") {
    parameters.alpha = read("alpha", 1);
  } else if (function == "LeakyRelu") {
    parameters.alpha = read("alpha", 0.01f);
  } else if (function == "Selu") {
    parameters.alpha = read("alpha", 1.67326319217681884765625f);
    parameters.gamma = read("gamma", 1.05070102214813232421875f);
  } else if (function == "HardSigmoid") {
    parameters.alpha = read("alpha", 0.2f);
    parameters.beta = read("beta", 0.5f);
  }
  if (function == "Celu" && parameters.alpha == 0)
    reader.Fail("alpha is 0, and Celu divides by it");
  return parameters;
}

}  // namespace cohort
