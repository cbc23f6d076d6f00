#pragma once

// A change that the coordinator makes to a variable, and its split into one part per slice. If a
// variable has one value per replica (common/program/aggregation.h), the coordinator, which is not
// a replica, changes the values of all replicas.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "common/wire/typed_call.h"
#include "proto/plan.pb.h"
#include "proto/ps.pb.h"

namespace cohort {

// A change of the form value = value op operand. It applies to all rows or, if there are ids, to
// the rows with these ids, one after another.
struct VariableChange {
  proto::ChangeOp op = proto::CHANGE_SET;
  std::optional<std::vector<int64_t>> ids;
  Tensor operand;
};
// The part of a variable's change that goes to one slice.
struct VariablePart {
  Tensor ids;
  Tensor operand;
};

// Splits a change into one part per slice. Errors: those of PsControl::Change for an operand that
// does not fit the variable.
absl::StatusOr<std::vector<VariablePart>> PartsOf(const proto::VariableLayout& variable,
                                                  const VariableChange& change);

void AddPart(const proto::SliceHome& slice, const VariablePart& part,
             Envelope<proto::AssignRequest>& request);

// Converts a change of a variable with one value per replica to a change of all replicas' rows. As
// in TensorFlow, such a variable takes no scatter update; with aggregation SUM it takes no
// addition, because it is unknown which replica would get the summand; with aggregation NONE it
// takes no change at all. Errors: INVALID_ARGUMENT naming the variable, for these cases and for an
// operand of another type or shape.
absl::StatusOr<VariableChange> ChangeOfReplicas(const proto::VariableLayout& variable,
                                                const VariableChange& change);

}  // namespace cohort
