#include "common/runtime/kernels/matmul_shape.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

absl::StatusOr<MatMulShape> ResolveMatMul(const Shape& a, const Shape& b,
                                          const MatMulFlags& flags) {
  const auto mismatch = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot multiply ", a.ToString(), flags.transpose_a ? " transposed" : "",
                     " by ", b.ToString(), flags.transpose_b ? " transposed" : ""));
  };
  // A product can transpose only an operand that has two axes or more.
  if (a.rank() < (flags.transpose_a ? 2 : 1) || b.rank() < (flags.transpose_b ? 2 : 1)) {
    return mismatch();
  }
  MatMulShape shape;
  shape.k = a.dim(a.rank() - 1);
  if (a.rank() >= 2) shape.m = a.dim(a.rank() - 2);
  if (flags.transpose_a) std::swap(shape.m, shape.k);
  int64_t k = b.rank() >= 2 ? b.dim(b.rank() - 2) : b.dim(0);
  if (b.rank() >= 2) shape.n = b.dim(b.rank() - 1);
  if (flags.transpose_b) std::swap(k, shape.n);
  if (k != shape.k) return mismatch();
  // The last two axes of an operand are the rows and columns of its matrices. All axes before them
  // broadcast.
  const Shape lead_a(a.dims().subspan(0, static_cast<size_t>(std::max(a.rank() - 2, 0))));
  const Shape lead_b(b.dims().subspan(0, static_cast<size_t>(std::max(b.rank() - 2, 0))));
  absl::StatusOr<Shape> lead = BroadcastShape(lead_a, lead_b);
  if (!lead.ok()) return mismatch();
  shape.batches = BroadcastAxes(lead_a, lead_b, *lead);
  absl::InlinedVector<int64_t, 4> dims(lead->dims().begin(), lead->dims().end());
  // An operand of rank 1 adds no axis to the result.
  if (a.rank() >= 2) dims.push_back(shape.m);
  if (b.rank() >= 2) dims.push_back(shape.n);
  shape.result = Shape(absl::MakeConstSpan(dims));
  return shape;
}

GemmParameters ParseGemm(AttributeReader& reader) {
  GemmParameters parameters;
  parameters.alpha = reader.Float("alpha", 1);
  parameters.beta = reader.Float("beta", 1);
  parameters.flags.transpose_a = reader.Flag("transA", false);
  parameters.flags.transpose_b = reader.Flag("transB", false);
  return parameters;
}

absl::StatusOr<MatMulShape> ResolveGemm(const Tensor& a, const Tensor& b, const Tensor& c,
                                        const MatMulFlags& flags) {
  RETURN_IF_ERROR(RequireRank(a, 2));
  RETURN_IF_ERROR(RequireRank(b, 2));
  ASSIGN_OR_RETURN(MatMulShape shape, ResolveMatMul(a.shape(), b.shape(), flags));
  if (!c.has_value()) return shape;
  RETURN_IF_ERROR(RequireSameType(a, c));
  // Gemm's operand C may be repeated along the axes of the result, but must not make the result
  // larger.
  const absl::StatusOr<Shape> with_c = BroadcastShape(shape.result, c.shape());
  if (!with_c.ok() || *with_c != shape.result) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.TypeString(), " does not broadcast to ", shape.result.ToString()));
  }
  return shape;
}

}  // namespace cohort
