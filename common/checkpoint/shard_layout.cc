#include "common/checkpoint/shard_layout.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

// Checks that the rows lie inside the tensor and that the tensor can be saved.
absl::Status CheckSlice(const BundleTensor& tensor, RowRange rows) {
  if (TensorFlowDType(tensor.dtype) == 0) {
    return absl::InvalidArgumentError("the tensor has no value");
  }
  RETURN_IF_ERROR(CheckedBytes(tensor.dtype, tensor.shape.dims()).status());
  const int64_t rows_all = tensor.shape.rank() == 0 ? 1 : tensor.shape.dim(0);
  // A tensor without rows is saved as one whole slice; other empty slices are refused.
  const bool whole = rows == RowRange{0, rows_all};
  if (rows.begin < 0 || rows.count < 0 || rows.count > rows_all ||
      rows.begin > rows_all - rows.count || (!whole && rows.count == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no rows ", rows.begin, "+", rows.count, " of ", tensor.shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

Shape ShapeOfRows(const Shape& full_shape, RowRange rows) {
  absl::InlinedVector<int64_t, 4> dims(full_shape.dims().begin(), full_shape.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  return Shape(absl::MakeConstSpan(dims));
}

absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows) {
  RETURN_IF_ERROR(CheckTensorName(name));
  RETURN_IF_ERROR(Annotate(CheckSlice(tensor, rows), absl::StrCat("tensor '", name, "'")));
  ASSIGN_OR_RETURN(const int64_t bytes,
                   CheckedBytes(tensor.dtype, ShapeOfRows(tensor.shape, rows).dims()));
  proto::SavedSlice saved;
  saved.set_tensor(name);
  saved.set_dtype(static_cast<int32_t>(tensor.dtype));
  for (const int64_t dim : tensor.shape.dims()) saved.add_full_dims(dim);
  saved.set_row_begin(rows.begin);
  saved.set_row_count(rows.count);
  saved.set_size(bytes);
  return saved;
}

}  // namespace cohort
