#include "coordinator/api/sharded_variable.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/homes/row_split.h"

namespace cohort {
namespace {

// Converts the int32 or int64 elements of `ids` to int64. Errors: INVALID_ARGUMENT for another
// type.
absl::StatusOr<std::vector<int64_t>> IdsOf(const Tensor& ids, const std::string& variable) {
  if (ids.dtype() == DType::kInt64)
    return std::vector<int64_t>(ids.span<int64_t>().begin(), ids.span<int64_t>().end());
  if (ids.dtype() == DType::kInt32)
    return std::vector<int64_t>(ids.span<int32_t>().begin(), ids.span<int32_t>().end());
  return absl::InvalidArgumentError(
      absl::StrCat("variable ", variable, ": ids are ", ids.TypeString(), ", not int32 or int64"));
}

// Returns a shape: the extents in `head`, followed by the extents of `value` from axis `axis` on.
Shape Joined(absl::Span<const int64_t> head, const Shape& value, int axis) {
  std::vector<int64_t> dims(head.begin(), head.end());
  for (int i = axis; i < value.rank(); ++i) dims.push_back(value.dim(i));
  return Shape(absl::MakeConstSpan(dims));
}

}  // namespace

absl::StatusOr<Tensor> ShardedVariable::ReadRows(absl::Span<const int64_t> rows) const {
  const bool of_replicas = variable_.layout().replicas() > 0;
  if (!variable_.is_local() && !of_replicas) {
    return coordinator_.parts().ps->ReadRows(variable_.layout(), rows);
  }
  // The rows of a local variable, or of a variable with one value per replica, are copied from the
  // variable's whole value.
  ASSIGN_OR_RETURN(const Tensor whole, ConvertToTensor());
  Tensor picked(whole.dtype(), Joined({static_cast<int64_t>(rows.size())}, whole.shape(), 1));
  const size_t bytes =
      static_cast<size_t>(whole.shape().row_elements()) * ElementSize(whole.dtype());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(picked.mutable_raw() + i * bytes,
                whole.raw() + static_cast<size_t>(rows[i]) * bytes, bytes);
  }
  return picked;
}

absl::StatusOr<Tensor> ShardedVariable::Slice(absl::Span<const SliceItem> items) const {
  const absl::StatusOr<SlicingPlan> plan = PlanSlicing(variable_.shape(), items);
  if (!plan.ok()) return Annotate(plan.status(), absl::StrCat("variable ", variable_.name()));
  // A scalar has no rows to select, so its whole value is read.
  absl::StatusOr<Tensor> rows = plan->axes.empty() ? ConvertToTensor() : ReadRows(plan->rows());
  if (!rows.ok()) return rows;
  return PickFromRows(*plan, *rows);
}

absl::StatusOr<Tensor> ShardedVariable::BooleanMask(const Tensor& mask) const {
  const Shape shape = variable_.shape();
  if (mask.dtype() != DType::kBool || shape.rank() == 0 || mask.shape() != Shape{shape.dim(0)}) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable_.name(), " is ", shape.ToString(), "; a mask of it is ",
                     "bool, one for each row, this one is ", mask.TypeString()));
  }
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < shape.dim(0); ++row) {
    if (mask.raw()[row] != std::byte{0}) rows.push_back(row);
  }
  return ReadRows(rows);
}

absl::StatusOr<Tensor> ShardedVariable::SparseRead(const Tensor& ids) const {
  const Shape shape = variable_.shape();
  if (shape.rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable_.name(), " is a scalar: it has no rows"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> rows, IdsOf(ids, variable_.name()));
  // The coordinator checks the ids itself: a local variable has no server that would refuse a bad
  // id.
  RETURN_IF_ERROR(CheckRows(variable_.name(), shape.dim(0), rows));
  ASSIGN_OR_RETURN(const Tensor read, ReadRows(rows));
  return read.Reshaped(Joined(ids.shape().dims(), shape, 1));
}

absl::StatusOr<Tensor> ShardedVariable::GatherNd(const Tensor& indices) const {
  const Shape shape = variable_.shape();
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, IdsOf(indices, variable_.name()));
  // The last axis of `indices` holds the multi-index of one element or sub-tensor of the variable.
  const int last = indices.shape().rank() - 1;
  const int64_t depth = last < 0 ? 0 : indices.shape().dim(last);
  if (depth < 1 || depth > shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable_.name(), " is ", shape.ToString(),
                     "; indices of it end in an axis of 1 to ", shape.rank(), ", these are ",
                     indices.TypeString()));
  }
  const Shape result = Joined(indices.shape().dims().first(static_cast<size_t>(last)), shape,
                              static_cast<int>(depth));
  const size_t count = numbers.size() / static_cast<size_t>(depth);
  std::vector<int64_t> rows(count);
  // For each gathered element or sub-tensor: its offset in its row, in units of its own size.
  std::vector<int64_t> places(count, 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int axis = static_cast<int>(i % static_cast<size_t>(depth));
    if (numbers[i] < 0 || numbers[i] >= shape.dim(axis)) {
      return absl::OutOfRangeError(absl::StrCat("variable ", variable_.name(), " is ",
                                                shape.ToString(), ": it has no index ", numbers[i],
                                                " of axis ", axis));
    }
    const size_t piece = i / static_cast<size_t>(depth);
    // The first number of a multi-index selects the row; the further numbers select an element or
    // sub-tensor within the row.
    if (axis == 0) {
      rows[piece] = numbers[i];
    } else {
      places[piece] = places[piece] * shape.dim(axis) + numbers[i];
    }
  }
  ASSIGN_OR_RETURN(const Tensor read, ReadRows(rows));
  Tensor gathered(read.dtype(), result);
  const size_t row_bytes =
      static_cast<size_t>(shape.row_elements()) * ElementSize(variable_.dtype());
  // `bytes` is the size of one gathered element or sub-tensor in bytes.
  const size_t bytes = count == 0 ? 0 : gathered.num_bytes() / count;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(gathered.mutable_raw() + i * bytes,
                read.raw() + i * row_bytes + static_cast<size_t>(places[i]) * bytes, bytes);
  }
  return gathered;
}

absl::Status ShardedVariable::Assign(const Tensor& value) const {
  return coordinator_.Change(variable_, {proto::CHANGE_SET, std::nullopt, value});
}
absl::Status ShardedVariable::AssignAdd(const Tensor& delta) const {
  return coordinator_.Change(variable_, {proto::CHANGE_ADD, std::nullopt, delta});
}
absl::Status ShardedVariable::AssignSub(const Tensor& delta) const {
  return coordinator_.Change(variable_, {proto::CHANGE_SUB, std::nullopt, delta});
}

absl::Status ShardedVariable::Scatter(proto::ChangeOp op, const Tensor& ids,
                                      const Tensor& updates) const {
  if (ids.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable_.name(), ": ids are [n], these are ", ids.TypeString()));
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> rows, IdsOf(ids, variable_.name()));
  return coordinator_.Change(variable_, {op, std::move(rows), updates});
}
absl::Status ShardedVariable::ScatterUpdate(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_SET, ids, updates);
}
absl::Status ShardedVariable::ScatterAdd(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_ADD, ids, updates);
}
absl::Status ShardedVariable::ScatterSub(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_SUB, ids, updates);
}
absl::Status ShardedVariable::ScatterMul(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_MUL, ids, updates);
}
absl::Status ShardedVariable::ScatterDiv(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_DIV, ids, updates);
}
absl::Status ShardedVariable::ScatterMin(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_MIN, ids, updates);
}
absl::Status ShardedVariable::ScatterMax(const Tensor& ids, const Tensor& updates) const {
  return Scatter(proto::CHANGE_MAX, ids, updates);
}

}  // namespace cohort
