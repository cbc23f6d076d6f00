#include "common/checkpoint/shard_layout.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

absl::Status CheckSlice(const Shape& full_shape, RowRange rows, const Tensor& value) {
  if (TensorFlowDType(value.dtype()) == 0) {
    return absl::InvalidArgumentError("the tensor has no value");
  }
  RETURN_IF_ERROR(CheckedBytes(value.dtype(), full_shape.dims()).status());
  const int64_t rows_all = full_shape.rank() == 0 ? 1 : full_shape.dim(0);
  absl::InlinedVector<int64_t, 4> dims(full_shape.dims().begin(), full_shape.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  const bool whole = rows == RowRange{0, rows_all};
  if (rows.begin < 0 || rows.count < 0 || rows.count > rows_all ||
      rows.begin > rows_all - rows.count || (!whole && rows.count == 0) ||
      value.shape() != Shape(absl::MakeConstSpan(dims))) {
    return absl::InvalidArgumentError(absl::StrCat("a value of shape ", value.shape().ToString(),
                                                   " is not rows ", rows.begin, "+", rows.count,
                                                   " of ", full_shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const Shape& full_shape,
                                                RowRange rows, const Tensor& value) {
  RETURN_IF_ERROR(CheckTensorName(name));
  RETURN_IF_ERROR(
      Annotate(CheckSlice(full_shape, rows, value), absl::StrCat("tensor '", name, "'")));
  proto::SavedSlice saved;
  saved.set_tensor(name);
  saved.set_dtype(static_cast<int32_t>(value.dtype()));
  for (const int64_t dim : full_shape.dims()) saved.add_full_dims(dim);
  saved.set_row_begin(rows.begin);
  saved.set_row_count(rows.count);
  saved.set_size(static_cast<int64_t>(value.num_bytes()));
  return saved;
}

}  // namespace cohort
