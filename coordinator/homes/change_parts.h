#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "coordinator/homes/ps_control.h"
#include "proto/plan.pb.h"

namespace cohort {

// What one slice gets of a change.
struct VariablePart {
  Tensor ids;
  Tensor operand;
};

// One for each slice. Errors: those of PsControl::Change for what does not fit the variable.
absl::StatusOr<std::vector<VariablePart>> PartsOf(const proto::VariableLayout& variable,
                                                  const PsControl::VariableChange& change);

void AddPart(const proto::SliceHome& slice, const VariablePart& part,
             Envelope<proto::AssignRequest>& request);

}  // namespace cohort
