#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"

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
};

const InitializerClass* FindClass(const std::string& name) {
  // Keras accepts the initializer names "uniform" and "normal" as well.
  if (name == "uniform" || name == "normal") return FindClass("random_" + name);
  for (const InitializerClass& one : kClasses) {
    if (name == one.class_name || absl::AsciiStrToLower(name) == one.short_name) return &one;
  }
  return nullptr;
}

std::vector<std::string> ClassNames() {
  std::vector<std::string> names;
  for (const InitializerClass& one : kClasses) names.push_back(one.class_name);
  return names;
}

// Keras's initializers that are special cases of VarianceScaling. Keras before 2.3 wrote all of
// them in this form.
struct VarianceScaling {
  double scale;
  const char* mode;
  bool uniform;
  const char* class_name;
};
constexpr VarianceScaling kScalings[] = {
    {1, "fan_avg", true, "GlorotUniform"}, {1, "fan_avg", false, "GlorotNormal"},
    {2, "fan_in", true, "HeUniform"},      {2, "fan_in", false, "HeNormal"},
    {1, "fan_in", true, "LecunUniform"},   {1, "fan_in", false, "LecunNormal"},
};

void ReadVarianceScaling(const ClassForm& form, KerasInitializerSpec& spec) {
  ObjectReader config = form.Config("");
  double scale = 1;
  std::string mode = "fan_in";
  std::string distribution = "truncated_normal";
  config.Number("scale", {.min = 0, .min_excluded = true}, &scale);
  config.Choice("mode", {"fan_in", "fan_out", "fan_avg"}, &mode);
  // "normal" is Keras's old name of the truncated normal distribution.
  config.Choice("distribution", {"uniform", "truncated_normal", "normal", "untruncated_normal"},
                &distribution);
  config.OptionalSeed("seed", &spec.seed);
  config.Ignore("dtype");
  config.Finish();
  for (const VarianceScaling& one : kScalings) {
    if (scale != one.scale || mode != one.mode || (distribution == "uniform") != one.uniform) {
      continue;
    }
    // No named class draws from the untruncated normal distribution.
    if (distribution == "untruncated_normal") continue;
    spec.class_name = one.class_name;
    return;
  }
  form.place.errors.Add(
      form.config_path,
      absl::StrCat("is a VarianceScaling of scale ", scale, ", mode '", mode,
                   "' and distribution '", distribution,
                   "'; it must be scale 1 with fan_avg (Glorot), scale 2 with fan_in (He) or "
                   "scale 1 with fan_in (Lecun), uniform or truncated_normal"));
}

}  // namespace

void ReadInitializer(const JsonPlace& place, KerasInitializerSpec& spec) {
  const ClassForm form = ReadClassForm(place, spec.class_name);
  if (place.record == nullptr) spec = KerasInitializerSpec();
  if (!form.ok()) return;
  if (form.class_name == "VarianceScaling" || form.class_name == "variance_scaling") {
    return ReadVarianceScaling(form, spec);
  }
  const InitializerClass* found = FindClass(form.class_name);
  if (found == nullptr) {
    return place.errors.Add(place.path, UnknownName("initializer", form.class_name, ClassNames()));
  }
  // The defaults depend on the class, so they are set before the config is read.
  if (place.record == nullptr) spec = {found->class_name, found->a_default, found->b_default};
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

}  // namespace cohort
