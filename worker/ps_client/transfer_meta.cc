#include "worker/ps_client/transfer_meta.h"

#include <vector>

#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

Shape RunShape(const VariableType& type, const RowRun& run) {
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  dims[0] = static_cast<int64_t>(run.count);
  return Shape(absl::MakeConstSpan(dims));
}

bool FitsType(const VariableType& type, const proto::TensorMeta& meta) {
  const auto dtype = static_cast<DType>(meta.dtype());
  return dtype == type.dtype || (type.dtype == DType::kFloat32 && IsHalf(dtype));
}

}  // namespace

void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  for (const int64_t dim : slice.shape.dims()) meta->add_dims(dim);
}

void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  const Shape shape = RunShape(type, run);
  for (const int64_t dim : shape.dims()) meta->add_dims(dim);
}

void FillIdsMeta(size_t count, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(DType::kInt64));
  meta->add_dims(static_cast<int64_t>(count));
}

bool FitsSlice(const VariableType& type, const SliceTransfer& slice,
               const proto::TensorMeta& meta) {
  return FitsType(type, meta) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             slice.shape;
}

bool FitsRows(const VariableType& type, const RowRun& run, const proto::TensorMeta& meta) {
  return FitsType(type, meta) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             RunShape(type, run);
}

void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload) {
  if (run.count == 0) return;
  payload.push_back(
      ByteSlice{rows, reinterpret_cast<const std::byte*>((*rows)[variable].data() + run.begin),
                run.count * sizeof(int64_t)});
}

}  // namespace cohort
