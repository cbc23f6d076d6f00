#include "coordinator/layers/constraint.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/layers/limits.h"

namespace cohort {
namespace {

// A class of constraints. `number` is its number in the update rule's parameter `constraint`.
struct ConstraintClass {
  const char* class_name;
  std::vector<const char*> names;  // the names that stand for the class with its defaults
  int number;
};

const std::vector<ConstraintClass>& Classes() {
  static const auto* const kClasses =
      new std::vector<ConstraintClass>{{"MaxNorm", {"max_norm", "maxnorm"}, 1},
                                       {"NonNeg", {"non_neg", "nonneg"}, 2},
                                       {"UnitNorm", {"unit_norm", "unitnorm"}, 3},
                                       {"MinMaxNorm", {"min_max_norm", "minmaxnorm"}, 4}};
  return *kClasses;
}

const ConstraintClass* FindClass(const std::string& name) {
  for (const ConstraintClass& one : Classes()) {
    const bool is_alias = std::any_of(one.names.begin(), one.names.end(), [&](const char* alias) {
      return absl::string_view(alias) == name;
    });
    if (is_alias || name == one.class_name) return &one;
  }
  return nullptr;
}

void ReadConfig(ObjectReader& config, ConstraintSpec& spec) {
  if (spec.class_name == "NonNeg") return;
  if (spec.class_name == "MinMaxNorm") {
    spec.max_value = 1;
    config.Number("min_value", {.min = 0}, &spec.min_value);
    config.Number("max_value", {.min = 0}, &spec.max_value);
    config.Number("rate", {.min = 0, .max = 1}, &spec.rate);
  } else if (spec.class_name == "MaxNorm") {
    spec.max_value = 2;
    config.Number("max_value", {.min = 0}, &spec.max_value);
  }
  config.Ints("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, 1, &spec.axes);
}

}  // namespace

void ReadConstraint(const JsonPlace& place, ConstraintSpec& spec) {
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return;
  const ConstraintClass* const found = FindClass(form.class_name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const ConstraintClass& one : Classes()) names.push_back(one.class_name);
    return place.errors.Add(place.path, UnknownName("constraint", form.class_name, names));
  }
  spec.class_name = found->class_name;
  ObjectReader config = form.Config(found->class_name);
  ReadConfig(config, spec);
  config.Finish();
}

absl::StatusOr<std::map<std::string, double>> ConstraintParameters(const ConstraintSpec& spec,
                                                                   const Shape& shape) {
  std::map<std::string, double> parameters;
  if (spec.is_none()) return parameters;
  parameters["constraint"] = FindClass(spec.class_name)->number;
  if (spec.class_name == "NonNeg") return parameters;
  const auto rank = static_cast<int64_t>(shape.rank());
  std::set<int64_t> axes;
  for (const int64_t axis : spec.axes) {
    if (axis >= rank || axis < -rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", axis, " is not one of ", shape.ToString()));
    }
    axes.insert(axis < 0 ? axis + rank : axis);
  }
  if (axes.empty() || *axes.rbegin() - *axes.begin() + 1 != static_cast<int64_t>(axes.size())) {
    return absl::InvalidArgumentError(
        "its axes do not lie side by side; only such norms are computed here");
  }
  double count = 1;
  double stride = 1;
  for (int64_t axis = *axes.begin(); axis < rank; ++axis) {
    (axes.contains(axis) ? count : stride) *=
        static_cast<double>(shape.dim(static_cast<int>(axis)));
  }
  parameters["constraint_min"] = spec.min_value;
  parameters["constraint_max"] = spec.max_value;
  parameters["constraint_rate"] = spec.rate;
  parameters["constraint_count"] = count;
  parameters["constraint_stride"] = stride;
  parameters["constraint_whole"] = axes.contains(0) ? 1 : 0;
  return parameters;
}

}  // namespace cohort
