#include "coordinator/homes/variable_change.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"
#include "common/wire/typed_call.h"
#include "coordinator/homes/row_split.h"

namespace cohort {

namespace {

// Returns the rows of `whole` that belong to a slice, without copying them. If `whole` is a scalar,
// returns it.
Tensor SliceView(const Tensor& whole, const proto::SliceHome& slice) {
  if (whole.shape().rank() == 0) return whole;
  return whole.Rows(slice.row_begin(), slice.row_count());
}

// Returns whether the tensor is of an integer type and contains a 0, so that it cannot be a
// divisor.
bool HasWholeZero(const Tensor& tensor) {
  const auto has_zero = [](auto span) {
    return std::find(span.begin(), span.end(), 0) != span.end();
  };
  if (tensor.dtype() == DType::kInt32) return has_zero(tensor.span<int32_t>());
  return tensor.dtype() == DType::kInt64 && has_zero(tensor.span<int64_t>());
}

// Checks that the row ids of the change exist, and that its operand has the type and shape that the
// variable needs. An integer divisor must not contain 0.
absl::Status CheckOperand(const proto::VariableLayout& variable, const VariableChange& change) {
  std::vector<int64_t> dims(variable.dims().begin(), variable.dims().end());
  if (change.ids.has_value()) {
    if (dims.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", variable.name(), " is a scalar: it has no rows"));
    }
    RETURN_IF_ERROR(CheckRows(variable.name(), dims[0], *change.ids));
    // If there are ids, the operand has one row per id.
    dims[0] = static_cast<int64_t>(change.ids->size());
  }
  const Shape expected{absl::MakeConstSpan(dims)};
  const bool fits = static_cast<int32_t>(change.operand.dtype()) == variable.dtype() &&
                    change.operand.shape() == expected;
  if (fits && change.op == proto::CHANGE_DIV && HasWholeZero(change.operand)) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable.name(), ": a whole number is divided by 0"));
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable ", variable.name(), " takes ", DTypeName(static_cast<DType>(variable.dtype())),
      expected.ToString(), ", the value is ", change.operand.TypeString()));
}

// Returns the rows of the operand at the positions `places`, in the order of `places`.
Tensor PickRows(const Tensor& operand, absl::Span<const size_t> places) {
  absl::InlinedVector<int64_t, 4> dims(operand.shape().dims().begin(),
                                       operand.shape().dims().end());
  dims[0] = static_cast<int64_t>(places.size());
  Tensor rows(operand.dtype(), Shape(absl::MakeConstSpan(dims)));
  if (rows.num_bytes() == 0) return rows;
  const size_t row_bytes = rows.num_bytes() / places.size();
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(rows.mutable_raw() + i * row_bytes, operand.raw() + places[i] * row_bytes,
                row_bytes);
  }
  return rows;
}

// Makes the error of a change that a variable with one value per replica does not allow.
absl::Status Refused(const proto::VariableLayout& variable, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("variable ", variable.name(),
                   " has a value for each replica (synchronization ON_READ): ", why));
}

}  // namespace

void AddPart(const proto::SliceHome& slice, const VariablePart& part,
             Envelope<proto::AssignRequest>& request) {
  request.header.add_slice_ids(slice.slice_id());
  *request.header.add_tensors() = MetaOf(part.operand);
  if (part.ids.has_value()) {
    *request.header.add_ids() = MetaOf(part.ids);
    if (part.ids.num_bytes() > 0) request.payload.push_back(SliceOf(part.ids));
  }
  // The header describes every tensor. An empty tensor has no bytes in the payload.
  if (part.operand.num_bytes() > 0) request.payload.push_back(SliceOf(part.operand));
}

absl::StatusOr<std::vector<VariablePart>> PartsOf(const proto::VariableLayout& variable,
                                                  const VariableChange& change) {
  RETURN_IF_ERROR(CheckOperand(variable, change));
  std::vector<VariablePart> parts;
  if (!change.ids.has_value()) {
    for (const proto::SliceHome& slice : variable.slices()) {
      parts.push_back({Tensor(), SliceView(change.operand, slice)});
    }
    return parts;
  }
  for (const SliceIds& slice : SplitRows(variable, *change.ids)) {
    parts.push_back({Tensor::FromVector(slice.ids, Shape{static_cast<int64_t>(slice.ids.size())}),
                     PickRows(change.operand, slice.places)});
  }
  return parts;
}

absl::StatusOr<Shape> SlotShapeOf(const proto::VariableLayout& variable, const std::string& slot) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec rule, DescribeUpdateRule(variable.rule()));
  const auto found = std::find_if(rule.slots.begin(), rule.slots.end(),
                                  [&](const SlotSpec& spec) { return spec.name == slot; });
  if (found == rule.slots.end()) {
    return absl::InvalidArgumentError(absl::StrCat("variable ", variable.name(), ": its rule ",
                                                   variable.rule().op(), " has no slot ", slot));
  }
  const Shape whole(
      absl::MakeConstSpan(variable.dims().data(), static_cast<size_t>(variable.dims_size())));
  return ShapeOfSlot(*found, whole);
}

absl::StatusOr<std::vector<VariablePart>> SlotPartsOf(const proto::VariableLayout& variable,
                                                      const std::string& slot,
                                                      const Tensor& content) {
  ASSIGN_OR_RETURN(const Shape expected, SlotShapeOf(variable, slot));
  if (content.dtype() != DType::kFloat32 || content.shape() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("variable ", variable.name(), ": its slot ",
                                                   slot, " takes float32", expected.ToString(),
                                                   ", the value is ", content.TypeString()));
  }
  // A slot that has not the variable's rows belongs to a rule whose variables are one slice.
  if (variable.slices_size() == 1) return std::vector<VariablePart>{{Tensor(), content}};
  std::vector<VariablePart> parts;
  for (const proto::SliceHome& slice : variable.slices()) {
    parts.push_back({Tensor(), SliceView(content, slice)});
  }
  return parts;
}

absl::StatusOr<VariableChange> ChangeOfReplicas(const proto::VariableLayout& variable,
                                                const VariableChange& change) {
  if (change.ids.has_value()) return Refused(variable, "it has no scatter updates of rows");
  const Shape shape = ValueShape(variable);
  if (static_cast<int32_t>(change.operand.dtype()) != variable.dtype() ||
      change.operand.shape() != shape) {
    return Refused(variable,
                   absl::StrCat("each is ", DTypeName(static_cast<DType>(variable.dtype())),
                                shape.ToString(), ", the value is ", change.operand.TypeString()));
  }
  if (variable.aggregation() == proto::AGGREGATION_NONE) {
    return Refused(variable,
                   "with aggregation NONE it has no one value to change in cross-replica context; "
                   "make it with SUM, MEAN or ONLY_FIRST_REPLICA");
  }
  // CHANGE_SET: each replica gets a value such that their joint value is the operand.
  if (change.op == proto::CHANGE_SET) {
    const ReplicaRows of{variable.name(), variable.aggregation()};
    return VariableChange{change.op, std::nullopt,
                          RowsOfValue(of, change.operand, variable.replicas())};
  }
  if (variable.aggregation() == proto::AGGREGATION_SUM) {
    return Refused(
        variable,
        "with aggregation SUM it is not added to in cross-replica context; assign it, or "
        "add in replica context");
  }
  return VariableChange{change.op, std::nullopt, RowsWithEach(change.operand, variable.replicas())};
}

}  // namespace cohort
