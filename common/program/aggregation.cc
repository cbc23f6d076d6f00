#include "common/program/aggregation.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cohort {

namespace {

Shape RowShape(const Shape& rows) { return Shape(rows.dims().subspan(1)); }

// Adds all rows of `rows` into row 0. The order of the additions is a balanced binary tree, as in
// all of Cohort's sums over replicas.
template <typename T>
void SumRows(Tensor& rows) {
  const int64_t width = rows.shape().row_elements();
  T* const values = reinterpret_cast<T*>(rows.mutable_raw());
  const int64_t count = rows.shape().dim(0);
  // In the pass for `step`, every row whose number is a multiple of 2 * step adds the row that is
  // `step` rows further down.
  for (int64_t step = 1; step < count; step *= 2) {
    for (int64_t row = 0; row + step < count; row += 2 * step) {
      for (int64_t i = 0; i < width; ++i) {
        values[row * width + i] += values[(row + step) * width + i];
      }
    }
  }
}

void SumRowsOf(Tensor& rows) {
  // Whole numbers are summed as unsigned types, so that an overflow wraps around.
  switch (rows.dtype()) {
    case DType::kInt32:
      return SumRows<uint32_t>(rows);
    case DType::kInt64:
      return SumRows<uint64_t>(rows);
    default:
      return SumRows<float>(rows);
  }
}

template <typename T>
void Divide(Tensor& value, int64_t by) {
  T* const values = value.mutable_data<T>();
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      // A whole number is divided as a double, as in TensorFlow, so the result is inexact above
      // 2^53.
      values[i] = static_cast<T>(static_cast<double>(values[i]) / static_cast<double>(by));
    } else {
      values[i] /= static_cast<T>(by);
    }
  }
}

void DivideBy(int64_t by, Tensor& value) {
  switch (value.dtype()) {
    case DType::kInt32:
      return Divide<int32_t>(value, by);
    case DType::kInt64:
      return Divide<int64_t>(value, by);
    default:
      return Divide<float>(value, by);
  }
}

}  // namespace

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
  // A mean over replicas can be computed only in float32.
  if (aggregation != proto::AGGREGATION_MEAN || dtype == DType::kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("aggregation MEAN does not fit ", DTypeName(dtype),
                   ": whole numbers have none; use SUM or ONLY_FIRST_REPLICA"));
}

bool ReplicaContext::Trains() const {
  // Only assign_add pushes a value to add to a variable. A push with any other operator carries a
  // gradient for an optimizer.
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

Shape ValueShape(const proto::VariableLayout& layout) {
  const Shape shape(
      absl::MakeConstSpan(layout.dims().data(), static_cast<size_t>(layout.dims_size())));
  return layout.replicas() > 0 && shape.rank() > 0 ? RowShape(shape) : shape;
}

absl::StatusOr<Tensor> ValueOfRows(const ReplicaRows& of, const Tensor& rows) {
  if (of.aggregation == proto::AGGREGATION_NONE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", of.variable,
        "' has a value for each replica (synchronization ON_READ) and "
        "aggregation NONE, which makes no one value of them: make it with aggregation SUM, MEAN or "
        "ONLY_FIRST_REPLICA, or read it in replica context"));
  }
  if (of.aggregation == proto::AGGREGATION_ONLY_FIRST_REPLICA) return RowOfReplica(rows, 0).Clone();
  // SumRowsOf overwrites the tensor that it sums, so it gets a copy of the caller's rows.
  Tensor sums = rows.Clone();
  SumRowsOf(sums);
  Tensor value = RowOfReplica(sums, 0);
  if (of.aggregation == proto::AGGREGATION_MEAN) DivideBy(rows.shape().dim(0), value);
  return value;
}

Tensor RowsOfValue(const ReplicaRows& of, const Tensor& value, int64_t replicas) {
  if (of.aggregation != proto::AGGREGATION_SUM) return RowsWithEach(value, replicas);
  // With aggregation SUM, the value of the variable is the sum over the replicas, so each replica
  // gets an equal share of `value`.
  Tensor share = value.Clone();
  DivideBy(replicas, share);
  return RowsWithEach(share, replicas);
}

Tensor RowsWithEach(const Tensor& row, int64_t replicas) {
  std::vector<int64_t> dims = {replicas};
  dims.insert(dims.end(), row.shape().dims().begin(), row.shape().dims().end());
  Tensor rows(row.dtype(), Shape(absl::MakeConstSpan(dims)));
  const size_t bytes = row.num_bytes();
  for (int64_t i = 0; i < replicas && bytes > 0; ++i) {
    std::memcpy(rows.mutable_raw() + static_cast<size_t>(i) * bytes, row.raw(), bytes);
  }
  return rows;
}

Tensor RowOfReplica(const Tensor& rows, int64_t replica) {
  return rows.Rows(replica, 1).Reshaped(RowShape(rows.shape()));
}

}  // namespace cohort
