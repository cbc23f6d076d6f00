#pragma once

// Data sets of tests whose elements are in the spec itself.

#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// The next component of every element, by rows. Copies the bytes.
inline void AddInline(proto::DatasetSpec& spec, const Tensor& value) {
  proto::InlineTensor& tensor = *spec.mutable_source()->mutable_inline_tensors()->add_tensors();
  tensor.set_dtype(static_cast<int32_t>(value.dtype()));
  for (const int64_t dim : value.shape().dims()) tensor.add_dims(dim);
  tensor.set_data(value.raw(), value.num_bytes());
}

}  // namespace cohort
