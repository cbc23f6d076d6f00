#include "coordinator/homes/replica_change.h"

#include "absl/strings/str_cat.h"
#include "common/program/replica_rows.h"

namespace cohort {

namespace {

absl::Status Refused(const proto::VariableLayout& variable, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("variable ", variable.name(),
                   " has a value for each replica (synchronization ON_READ): ", why));
}

}  // namespace

absl::StatusOr<PsControl::VariableChange> ChangeOfReplicas(
    const proto::VariableLayout& variable, const PsControl::VariableChange& change) {
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
  if (change.op == proto::CHANGE_SET) {
    const ReplicaRows of{variable.name(), variable.aggregation()};
    return PsControl::VariableChange{change.op, std::nullopt,
                                     RowsOfValue(of, change.operand, variable.replicas())};
  }
  if (variable.aggregation() == proto::AGGREGATION_SUM) {
    return Refused(
        variable,
        "with aggregation SUM it is not added to in cross-replica context; assign it, or "
        "add in replica context");
  }
  return PsControl::VariableChange{change.op, std::nullopt,
                                   RowsWithEach(change.operand, variable.replicas())};
}

}  // namespace cohort
