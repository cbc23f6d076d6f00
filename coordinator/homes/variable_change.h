#pragma once

// A change that the coordinator makes to a variable, and what each of its slices gets of the
// change. Of a variable with a value for each replica (common/program/replica_rows.h) the
// coordinator, which is no replica, changes all of them.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "common/wire/typed_call.h"
#include "proto/plan.pb.h"
#include "proto/ps.pb.h"

namespace cohort {

// value = value op operand, of all rows or, where there are ids, row after row of these.
struct VariableChange {
  proto::ChangeOp op = proto::CHANGE_SET;
  std::optional<std::vector<int64_t>> ids;
  Tensor operand;
};
// The part of a change that one slice gets.
struct VariablePart {
  Tensor ids;
  Tensor operand;
};

// Returns a part for each slice. Errors: those of PsControl::Change for an operand that does not
// fit the variable.
absl::StatusOr<std::vector<VariablePart>> PartsOf(const proto::VariableLayout& variable,
                                                  const VariableChange& change);

void AddPart(const proto::SliceHome& slice, const VariablePart& part,
             Envelope<proto::AssignRequest>& request);

// Returns the change of all rows that makes this change. As in TensorFlow nothing is added to a
// sum, as nobody could say which replica it is added to, aggregation NONE takes nothing, and there
// is no scatter. Errors: INVALID_ARGUMENT for these and for an operand of another type or shape;
// naming the variable.
absl::StatusOr<VariableChange> ChangeOfReplicas(const proto::VariableLayout& variable,
                                                const VariableChange& change);

}  // namespace cohort
