#include "ps_server/service/request_check.h"

#include "absl/strings/str_cat.h"

namespace cohort {

absl::Status CheckIsWhole(const VariableSlice& shard) {
  const SliceLayout& layout = shard.layout();
  if (!layout.dynamic.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("slice ", layout.slice_id, " of ", layout.variable,
                   " is of a dynamic table, which has rows under keys and no whole value: pull and "
                   "push rows by their keys"));
}

absl::Status CheckTensor(const proto::TensorMeta& meta, const VariableSlice& shard,
                         const Shape& shape) {
  const SliceLayout& layout = shard.layout();
  const Shape came(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size())));
  if (meta.dtype() == static_cast<int32_t>(layout.dtype) && came == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "slice ", layout.slice_id, " of ", layout.variable, " is ", DTypeName(layout.dtype),
      shape.ToString(), ", the message has type ", meta.dtype(), " ", came.ToString()));
}

absl::Status CheckPayload(size_t expected, size_t came) {
  if (came == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the payload has ", came, " bytes, its tensors need ", expected));
}

}  // namespace cohort
