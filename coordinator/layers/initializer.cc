#include "coordinator/layers/initializer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

// A class, its string form, and Keras's names of the two numbers in its config ("" if the class has
// no such number).
struct InitializerClass {
  const char* class_name;
  const char* short_name;
  const char* a_key;
  double a_default;
  const char* b_key;
  double b_default;
  bool has_seed;
};

constexpr InitializerClass kClasses[] = {
    {"Zeros", "zeros", "", 0, "", 0, false},
    {"Ones", "ones", "", 0, "", 0, false},
    {"Constant", "constant", "value", 0, "", 0, false},
    {"RandomUniform", "random_uniform", "minval", -0.05, "maxval", 0.05, true},
    {"RandomNormal", "random_normal", "mean", 0, "stddev", 0.05, true},
    {"TruncatedNormal", "truncated_normal", "mean", 0, "stddev", 0.05, true},
    {"GlorotUniform", "glorot_uniform", "", 0, "", 0, true},
    {"GlorotNormal", "glorot_normal", "", 0, "", 0, true},
    {"HeUniform", "he_uniform", "", 0, "", 0, true},
    {"HeNormal", "he_normal", "", 0, "", 0, true},
    {"LecunUniform", "lecun_uniform", "", 0, "", 0, true},
    {"LecunNormal", "lecun_normal", "", 0, "", 0, true},
    {"Orthogonal", "orthogonal", "gain", 1, "", 0, true},
    {"Identity", "identity", "gain", 1, "", 0, false},
};

const InitializerClass* FindClass(const std::string& name) {
  // Keras accepts the initializer names "uniform" and "normal" as well.
  if (name == "uniform" || name == "normal") return FindClass("random_" + name);
  // Keras before 3.7 wrote these names in version 3.
  if (name == "OrthogonalInitializer") return FindClass("Orthogonal");
  if (name == "IdentityInitializer") return FindClass("Identity");
  for (const InitializerClass& one : kClasses) {
    if (name == one.class_name || absl::AsciiStrToLower(name) == one.short_name) return &one;
  }
  return nullptr;
}

std::vector<std::string> ClassNames() {
  std::vector<std::string> names;
  for (const InitializerClass& one : kClasses) names.push_back(one.class_name);
  names.push_back("VarianceScaling");
  return names;
}

// The named special cases of VarianceScaling. Keras before 2.3 wrote them as VarianceScaling.
constexpr NamedScaling kScalings[] = {
    {"GlorotUniform", 1, "fan_avg", "uniform"}, {"GlorotNormal", 1, "fan_avg", "truncated_normal"},
    {"HeUniform", 2, "fan_in", "uniform"},      {"HeNormal", 2, "fan_in", "truncated_normal"},
    {"LecunUniform", 1, "fan_in", "uniform"},   {"LecunNormal", 1, "fan_in", "truncated_normal"},
};

void ReadVarianceScaling(const ClassForm& form, KerasInitializerSpec& spec) {
  if (form.place.value != nullptr)
    spec = {"VarianceScaling", 1, 0, {}, "fan_in", "truncated_normal"};
  // This read does not record, because what is recorded depends on the result.
  ClassForm unrecorded = form;
  if (form.place.value != nullptr) unrecorded.place.record = nullptr;
  ObjectReader config = unrecorded.Config("VarianceScaling");
  config.Number("scale", {.min = 0, .min_excluded = true}, &spec.a);
  config.Choice("mode", {"fan_in", "fan_out", "fan_avg"}, &spec.mode);
  // "normal" is Keras's old name of the truncated normal distribution.
  config.Choice("distribution", {"uniform", "truncated_normal", "normal", "untruncated_normal"},
                &spec.distribution);
  if (spec.distribution == "normal") spec.distribution = "truncated_normal";
  config.OptionalSeed("seed", &spec.seed);
  config.Ignore("dtype");
  config.OnlyNeutral("input_axes", nullptr);
  config.OnlyNeutral("output_axes", nullptr);
  config.Finish();
  for (const NamedScaling& one : kScalings) {
    if (spec.a != one.scale || spec.mode != one.mode || spec.distribution != one.distribution) {
      continue;
    }
    spec = {.class_name = one.class_name, .seed = spec.seed};
  }
}

// Records a spec that was read in another form.
void RecordInitializer(const JsonPlace& place, KerasInitializerSpec& spec) {
  if (place.record == nullptr || place.value == nullptr) return;
  ReadInitializer({place.path, place.errors, nullptr, place.record}, spec);
}

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

// Sets the rule of a VarianceScaling.
void SetVarianceScaling(const NamedScaling& scaling, const Shape& shape,
                        proto::Initializer& initializer) {
  const auto [fan_in, fan_out] = FansOf(shape);
  const absl::string_view mode = scaling.mode;
  const double fan =
      mode == "fan_in" ? fan_in : (mode == "fan_out" ? fan_out : (fan_in + fan_out) / 2);
  const double variance = scaling.scale / std::max(1.0, fan);
  const absl::string_view distribution = scaling.distribution;
  if (distribution == "uniform") {
    // A uniform distribution over [-limit, limit] has the variance limit^2 / 3.
    const double limit = std::sqrt(3.0 * variance);
    Set(initializer, "random_uniform", -limit, limit);
  } else if (distribution == "untruncated_normal") {
    Set(initializer, "random_normal", 0, std::sqrt(variance));
  } else {
    // Truncation lowers the standard deviation, so the distribution starts from a wider one, as in
    // Keras.
    Set(initializer, "truncated_normal", 0, std::sqrt(variance) / kTruncatedNormalStddev);
  }
}

}  // namespace

const NamedScaling* FindScaling(const std::string& class_name) {
  for (const NamedScaling& one : kScalings) {
    if (class_name == one.class_name) return &one;
  }
  return nullptr;
}

void ReadInitializer(const JsonPlace& place, KerasInitializerSpec& spec) {
  const ClassForm form = ReadClassForm(place, spec.class_name);
  if (place.value != nullptr) spec = KerasInitializerSpec();
  if (!form.ok()) return;
  if (form.class_name == "VarianceScaling" || form.class_name == "variance_scaling") {
    ReadVarianceScaling(form, spec);
    return RecordInitializer(place, spec);
  }
  const InitializerClass* found = FindClass(form.class_name);
  if (found == nullptr) {
    return place.errors.Add(place.path, UnknownName("initializer", form.class_name, ClassNames()));
  }
  // The defaults depend on the class, so they are set before the config is read.
  if (place.value != nullptr) spec = {found->class_name, found->a_default, found->b_default};
  ObjectReader config = form.Config(found->class_name);
  if (*found->a_key) config.Number(found->a_key, {}, &spec.a);
  if (*found->b_key) config.Number(found->b_key, {}, &spec.b);
  if (found->has_seed) config.OptionalSeed("seed", &spec.seed);
  config.Ignore("dtype");
  // The axes of an initializer cannot be chosen.
  config.OnlyNeutral("input_axes", nullptr);
  config.OnlyNeutral("output_axes", nullptr);
  config.Finish();
  if (spec.class_name == "RandomUniform" && spec.a > spec.b) {
    config.AddError("maxval", absl::StrCat("is ", spec.b, ", below minval ", spec.a));
  }
  const bool is_normal = spec.class_name == "RandomNormal" || spec.class_name == "TruncatedNormal";
  if (is_normal && spec.b < 0) {
    config.AddError("stddev", absl::StrCat("is ", spec.b, "; it must be at least 0"));
  }
}

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
  } else if (spec.class_name == "Orthogonal" || spec.class_name == "Identity") {
    // All axes but the last count as rows.
    const int64_t columns = shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1);
    Set(initializer, spec.class_name == "Identity" ? "identity" : "orthogonal", spec.a,
        static_cast<double>(columns));
  } else if (const NamedScaling* const named = FindScaling(spec.class_name)) {
    SetVarianceScaling(*named, shape, initializer);
  } else {
    SetVarianceScaling({"", spec.a, spec.mode.c_str(), spec.distribution.c_str()}, shape,
                       initializer);
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
