#pragma once

// Keras's initializers: their config, and the start-value rule of a variable that follows from it.
// The Glorot, He and Lecun families are variance scaling
// (keras/initializers/random_initializers.py): scale / fan, drawn uniformly or from a normal
// distribution, truncated or not.

#include <optional>
#include <string>

#include "common/tensor/shape.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/layers/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// The rule for a variable's start value, by Keras's class name: "Zeros", "Ones", "Constant",
// "RandomUniform", "RandomNormal", "TruncatedNormal", "Orthogonal", "Identity", "VarianceScaling",
// or a named special case of VarianceScaling: "GlorotUniform", "GlorotNormal", "HeUniform",
// "HeNormal", "LecunUniform", "LecunNormal".
struct KerasInitializerSpec {
  std::string class_name = "Zeros";
  // The first number of the config. For Constant: value; for RandomUniform: minval; for
  // RandomNormal and TruncatedNormal: mean; for VarianceScaling: scale; for Orthogonal and
  // Identity: gain.
  double a = 0;
  // Second number: maxval of RandomUniform, stddev of RandomNormal and TruncatedNormal.
  double b = 0;
  std::optional<uint64_t> seed = {};  // seed of the initializer; absent: the job's seed is used
  // VarianceScaling's mode: "fan_in", "fan_out" or "fan_avg".
  std::string mode = {};
  // VarianceScaling's distribution: "uniform", "truncated_normal" or "untruncated_normal".
  std::string distribution = {};

  friend bool operator==(const KerasInitializerSpec&, const KerasInitializerSpec&) = default;
};

// VarianceScaling's settings of a named special case, such as "HeNormal".
struct NamedScaling {
  const char* class_name;
  double scale;
  const char* mode;
  const char* distribution;
};
// Returns the special case of this name, or null.
const NamedScaling* FindScaling(const std::string& class_name);

void ReadInitializer(const JsonPlace& place, KerasInitializerSpec& spec);

// Makes the rule for a variable of this shape. `job_seed` is used if the layer has no seed.
proto::Initializer MakeInitializer(const KerasInitializerSpec& spec, const Shape& shape,
                                   uint64_t job_seed);

// Makes a trainable float32 variable with this initializer.
VariableSpec MakeVariable(const std::string& name, const Shape& shape,
                          const KerasInitializerSpec& initializer, uint64_t job_seed);

}  // namespace cohort
