#include "coordinator/model/initializer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"

namespace cohort {
namespace {

// The standard deviation of a standard normal distribution that is cut off at two standard
// deviations: scipy.stats.truncnorm.std(a=-2, b=2).
constexpr double kTruncatedNormalStddev = 0.87962566103423978;

void Set(proto::Initializer& initializer, const char* op, double a, double b) {
  initializer.set_op(op);
  initializer.set_a(a);
  initializer.set_b(b);
}

// The number of inputs and outputs of a variable, called fans; variance scaling divides by them.
struct Fans {
  double in = 1;
  double out = 1;
};

// Returns the fans of a variable, like Keras's compute_fans: a kernel has the shape [positions ...,
// inputs, outputs].
Fans FansOf(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  Fans fans = {static_cast<double>(shape.dim(rank - 2)), static_cast<double>(shape.dim(rank - 1))};
  for (int axis = 0; axis < rank - 2; ++axis) {
    fans.in *= static_cast<double>(shape.dim(axis));
    fans.out *= static_cast<double>(shape.dim(axis));
  }
  return fans;
}

// Sets the rule of a Glorot, He or Lecun initializer.
void SetVarianceScaling(const std::string& class_name, const Shape& shape,
                        proto::Initializer& initializer) {
  const auto [fan_in, fan_out] = FansOf(shape);
  double variance = 0;
  if (absl::StartsWith(class_name, "Glorot")) {
    variance = 1.0 / std::max(1.0, (fan_in + fan_out) / 2);
  } else {
    const double scale = absl::StartsWith(class_name, "He") ? 2.0 : 1.0;
    variance = scale / std::max(1.0, fan_in);
  }
  if (absl::EndsWith(class_name, "Uniform")) {
    // A uniform distribution over [-limit, limit] has the variance limit^2 / 3.
    const double limit = std::sqrt(3.0 * variance);
    Set(initializer, "random_uniform", -limit, limit);
  } else {
    // Truncation lowers the standard deviation, so the distribution starts from a wider one, as in
    // Keras.
    Set(initializer, "truncated_normal", 0, std::sqrt(variance) / kTruncatedNormalStddev);
  }
}

}  // namespace

proto::Initializer MakeInitializer(const KerasInitializerSpec& spec, const Shape& shape,
                                   uint64_t job_seed) {
  proto::Initializer initializer;
  initializer.set_seed(spec.seed.value_or(job_seed));
  if (spec.class_name == "Zeros") {
    Set(initializer, "zeros", 0, 0);
  } else if (spec.class_name == "Ones") {
    Set(initializer, "ones", 0, 0);
  } else if (spec.class_name == "Constant") {
    Set(initializer, "constant", spec.a, 0);
  } else if (spec.class_name == "RandomUniform") {
    Set(initializer, "random_uniform", spec.a, spec.b);
  } else if (spec.class_name == "RandomNormal") {
    Set(initializer, "random_normal", spec.a, spec.b);
  } else if (spec.class_name == "TruncatedNormal") {
    Set(initializer, "truncated_normal", spec.a, spec.b);
  } else {
    SetVarianceScaling(spec.class_name, shape, initializer);
  }
  return initializer;
}

VariableSpec MakeVariable(const std::string& name, const Shape& shape,
                          const KerasInitializerSpec& initializer, uint64_t job_seed) {
  VariableSpec variable;
  variable.name = name;
  variable.shape = shape;
  variable.initializer = MakeInitializer(initializer, shape, job_seed);
  return variable;
}

}  // namespace cohort
