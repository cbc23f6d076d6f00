#include "common/program/aggregation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cohort {

std::string AggregationName(proto::VariableAggregation aggregation) {
  if (!proto::VariableAggregation_IsValid(aggregation)) {
    return absl::StrCat(static_cast<int>(aggregation));
  }
  absl::string_view name = proto::VariableAggregation_Name(aggregation);
  absl::ConsumePrefix(&name, "AGGREGATION_");
  return std::string(name);
}

absl::Status CheckAggregation(proto::VariableAggregation aggregation, DType dtype) {
  if (!proto::VariableAggregation_IsValid(aggregation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid variable aggregation mode ", AggregationName(aggregation),
                     "; there are NONE, SUM, MEAN and ONLY_FIRST_REPLICA"));
  }
  // Means over replicas are computed only in float32.
  if (aggregation != proto::AGGREGATION_MEAN || dtype == DType::kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("aggregation MEAN does not fit ", DTypeName(dtype),
                   ": whole numbers have none; use SUM or ONLY_FIRST_REPLICA"));
}

bool ReplicaContext::Trains() const {
  // assign_add adds a value to the variable, and no optimizer uses it.
  return update == ReplicaUpdate::kPush && rule.op() != "assign_add";
}

absl::Status ReplicaContext::Check() const {
  if (Trains() || aggregation != proto::AGGREGATION_NONE) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", variable, "' is ",
      update == ReplicaUpdate::kAssign ? "assigned to" : "added to",
      " in replica context, by closures of a synchronous step, and its aggregation is NONE: make "
      "it with aggregation SUM, MEAN or ONLY_FIRST_REPLICA, which says how the replicas' values "
      "become one, or change it in cross-replica context, by the coordinator"));
}

proto::VariableAggregation ReplicaContext::How() const {
  return Trains() ? proto::AGGREGATION_MEAN : aggregation;
}

}  // namespace cohort
