#pragma once

// Types that layers of all kinds share.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

enum class Activation { kLinear, kRelu, kSigmoid, kTanh, kSoftmax };

// Keras's name: "linear", "relu", "sigmoid", "tanh", "softmax".
absl::string_view ActivationName(Activation activation);

// A start value by rule: "Zeros", "Ones", "Constant", "RandomUniform", "RandomNormal",
// "TruncatedNormal", "GlorotUniform", "GlorotNormal", "HeUniform", "HeNormal", "LecunUniform",
// "LecunNormal" (Keras's class names).
struct KerasInitializerSpec {
  std::string class_name = "Zeros";
  // Constant: value; RandomUniform: minval; RandomNormal, TruncatedNormal: mean.
  double a = 0;
  double b = 0;  // RandomUniform: maxval; RandomNormal, TruncatedNormal: stddev
  std::optional<uint64_t> seed = {};  // absent: the job's seed

  friend bool operator==(const KerasInitializerSpec&, const KerasInitializerSpec&) = default;
};

}  // namespace cohort
