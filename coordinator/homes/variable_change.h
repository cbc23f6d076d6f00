#pragma once

// A change that the coordinator makes to a variable, and its division into one part per slice. If a
// variable has one value per replica (common/program/aggregation.h), the change is made to the
// values of all replicas, because the coordinator is not a replica itself.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "proto/ps.pb.h"

namespace cohort {

template <typename Proto>
struct Envelope;  // common/wire/typed_call.h

// A change of the form value = value op operand. Without `ids`, it changes the whole variable. With
// `ids`, it changes the rows with these ids, one after another.
struct VariableChange {
  proto::ChangeOp op = proto::CHANGE_SET;
  std::optional<std::vector<int64_t>> ids;
  Tensor operand;
};
// The part of a change that goes to one slice.
struct VariablePart {
  Tensor ids;
  Tensor operand;
};

// Divides a change into one part per slice. Errors: those of PsControl::Change for a bad operand or
// id.
absl::StatusOr<std::vector<VariablePart>> PartsOf(const proto::VariableLayout& variable,
                                                  const VariableChange& change);

// Returns the shape of the whole content of a slot of the variable's update rule. Errors:
// INVALID_ARGUMENT naming the variable, if its rule has no such slot.
absl::StatusOr<Shape> SlotShapeOf(const proto::VariableLayout& variable, const std::string& slot);

// Divides the content of a slot of the variable's update rule into one part per slice. Errors:
// INVALID_ARGUMENT naming the variable, if its rule has no such slot, or for content of another
// type or shape.
absl::StatusOr<std::vector<VariablePart>> SlotPartsOf(const proto::VariableLayout& variable,
                                                      const std::string& slot,
                                                      const Tensor& content);

void AddPart(const proto::SliceHome& slice, const VariablePart& part,
             Envelope<proto::AssignRequest>& request);

// Converts a change of a variable with one value per replica to a change of all replicas' values.
// As in TensorFlow, not every change is allowed. A scatter update is not. With aggregation SUM, an
// addition or the like is not, because it is unknown which replica would get the summand. With
// aggregation NONE, no change is. Errors: INVALID_ARGUMENT naming the variable, in these cases and
// for an operand of another type or shape.
absl::StatusOr<VariableChange> ChangeOfReplicas(const proto::VariableLayout& variable,
                                                const VariableChange& change);

}  // namespace cohort
