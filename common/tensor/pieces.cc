#include "common/tensor/pieces.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// Returns the number of contiguous runs that an axis divides a tensor into. A run holds all
// elements with the same indices along the axes before `axis`.
int64_t RunsBefore(const Shape& shape, int axis) {
  int64_t runs = 1;
  for (int other = 0; other < axis; ++other) runs *= shape.dim(other);
  return runs;
}

Shape WithSize(const Shape& shape, int axis, int64_t size) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<size_t>(axis)] = size;
  return Shape(absl::MakeConstSpan(dims));
}

// Checks that `part` has the element type of `first`, and the same sizes as `first` except along
// the axis `along`.
absl::Status CheckFits(const Tensor& first, const Tensor& part, int along) {
  const Shape& shape = first.shape();
  if (part.dtype() != first.dtype() || part.shape().rank() != shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("replicas have ", first.TypeString(), " and ",
                                                   part.TypeString(),
                                                   ": types and ranks must be the same"));
  }
  // The sizes along the joined axis may differ, so the comparison replaces both by 0.
  if (WithSize(part.shape(), along, 0) == WithSize(shape, along, 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("replicas have ", first.TypeString(), " and ", part.TypeString(),
                   ": sizes may differ along the gathered axis ", along, " alone"));
}

}  // namespace

absl::StatusOr<int> AxisOf(int64_t axis, int rank) {
  if (rank == 0) {
    return absl::InvalidArgumentError("scalars cannot be gathered: give them an axis, as [1]");
  }
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return absl::InvalidArgumentError(
      absl::StrCat("axis ", axis, " is out of range for values of rank ", rank));
}

absl::StatusOr<Tensor> Concatenated(absl::Span<const Tensor> parts, int64_t axis) {
  const Tensor& first = parts[0];
  ASSIGN_OR_RETURN(const int along, AxisOf(axis, first.shape().rank()));
  int64_t size = 0;
  for (const Tensor& part : parts) {
    RETURN_IF_ERROR(CheckFits(first, part, along));
    size += part.shape().dim(along);
  }
  Tensor whole(first.dtype(), WithSize(first.shape(), along, size));
  // An empty tensor needs no copy, and without this return the division by the number of runs could
  // divide by zero.
  if (whole.num_bytes() == 0) return whole;
  const auto runs = static_cast<size_t>(RunsBefore(first.shape(), along));
  std::byte* out = whole.mutable_raw();
  for (size_t run = 0; run < runs; ++run) {
    for (const Tensor& part : parts) {
      const size_t bytes = part.num_bytes() / runs;
      if (bytes == 0) continue;
      std::memcpy(out, part.raw() + run * bytes, bytes);
      out += bytes;
    }
  }
  return whole;
}

Tensor PieceOf(const Tensor& whole, int axis, int64_t begin, int64_t count) {
  Tensor piece(whole.dtype(), WithSize(whole.shape(), axis, count));
  if (piece.num_bytes() == 0) return piece;
  const auto runs = static_cast<size_t>(RunsBefore(whole.shape(), axis));
  const size_t stride = whole.num_bytes() / runs;
  const size_t bytes = piece.num_bytes() / runs;
  // The number of bytes at the beginning of each run that are not copied, because they belong to
  // indices before `begin`.
  const size_t skipped =
      stride / static_cast<size_t>(whole.shape().dim(axis)) * static_cast<size_t>(begin);
  for (size_t run = 0; run < runs; ++run) {
    std::memcpy(piece.mutable_raw() + run * bytes, whole.raw() + run * stride + skipped, bytes);
  }
  return piece;
}

}  // namespace cohort
