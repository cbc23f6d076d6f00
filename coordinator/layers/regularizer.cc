#include "coordinator/layers/regularizer.h"

#include <vector>

namespace cohort {
namespace {

struct RegularizerClass {
  const char* class_name;
  const char* short_name;
  double l1, l2;  // defaults of the class; below 0: the class has no such number
};

constexpr RegularizerClass kClasses[] = {
    {"L1", "l1", 0.01, -1},
    {"L2", "l2", -1, 0.01},
    {"L1L2", "l1_l2", 0, 0},
};
constexpr char kOrthogonal[] = "OrthogonalRegularizer";

void ReadOrthogonal(ObjectReader& config, RegularizerSpec& spec) {
  std::string mode = spec.columns ? "columns" : "rows";
  config.Number("factor", {.min = 0}, &spec.orthogonal);
  config.Choice("mode", {"rows", "columns"}, &mode);
  spec.columns = mode == "columns";
}

}  // namespace

void ReadRegularizer(const JsonPlace& place, RegularizerSpec& spec) {
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return;
  if (form.class_name == kOrthogonal || form.class_name == "orthogonal_regularizer") {
    spec.orthogonal = 0.01;
    ObjectReader config = form.Config(kOrthogonal);
    ReadOrthogonal(config, spec);
    return config.Finish();
  }
  std::vector<std::string> names = {kOrthogonal};
  for (const RegularizerClass& one : kClasses) {
    names.push_back(one.class_name);
    const bool is_name = form.class_name == one.short_name;
    if (form.class_name != one.class_name && !is_name) continue;
    spec.l1 = one.l1 < 0 ? 0 : one.l1;
    spec.l2 = one.l2 < 0 ? 0 : one.l2;
    // The name l1_l2 without a config means other strengths than the class's defaults.
    if (is_name && form.is_name_only && one.l1 == 0) spec = {.l1 = 0.01, .l2 = 0.01};
    ObjectReader config = form.Config(one.class_name);
    if (one.l1 >= 0) config.Number("l1", {.min = 0}, &spec.l1);
    if (one.l2 >= 0) config.Number("l2", {.min = 0}, &spec.l2);
    return config.Finish();
  }
  place.errors.Add(place.path, UnknownName("regularizer", form.class_name, names));
}

bool IsPerExample(const KerasVersion& keras) {
  if (keras.IsKeras2()) return keras >= KerasVersion{2, 4};
  return keras >= KerasVersion{3, 14};
}

}  // namespace cohort
