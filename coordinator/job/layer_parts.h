#pragma once

// Types that layers of all kinds share.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

enum class Activation { kLinear, kRelu, kSigmoid, kTanh, kSoftmax };

// Returns Keras's name of the activation: "linear", "relu", "sigmoid", "tanh", "softmax".
absl::string_view ActivationName(Activation activation);

// The rule for a variable's start value, by Keras's class name: "Zeros", "Ones", "Constant",
// "RandomUniform", "RandomNormal", "TruncatedNormal", "GlorotUniform", "GlorotNormal", "HeUniform",
// "HeNormal", "LecunUniform", "LecunNormal".
struct KerasInitializerSpec {
  std::string class_name = "Zeros";
  // The first number of the config. For Constant: value; for RandomUniform: minval; for
  // RandomNormal and TruncatedNormal: mean.
  double a = 0;
  // Second number: maxval of RandomUniform, stddev of RandomNormal and TruncatedNormal.
  double b = 0;
  std::optional<uint64_t> seed = {};  // seed of the initializer; absent: the job's seed is used

  friend bool operator==(const KerasInitializerSpec&, const KerasInitializerSpec&) = default;
};

}  // namespace cohort
