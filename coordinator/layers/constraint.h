#pragma once

// Keras's constraints, which change a variable's value after each update.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/shape.h"
#include "coordinator/json/json_reader.h"

namespace cohort {

struct ConstraintSpec {
  std::string class_name = "";  // Keras's, such as "MaxNorm"; empty: no constraint
  double min_value = 0;
  double max_value = 0;
  double rate = 1;
  std::vector<int64_t> axes = {0};  // the axes along which a norm is taken

  bool is_none() const { return class_name.empty(); }
};

// Reads a class form, or the name of a constraint with Keras's defaults.
void ReadConstraint(const JsonPlace& place, ConstraintSpec& spec);

// Returns the parameters of the update rule (common/program/update_rule.h) of a variable of this
// shape with the constraint. Errors: INVALID_ARGUMENT for an axis that the variable lacks, and for
// axes that do not lie side by side.
absl::StatusOr<std::map<std::string, double>> ConstraintParameters(const ConstraintSpec& spec,
                                                                   const Shape& shape);

}  // namespace cohort
