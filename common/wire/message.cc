#include "common/wire/message.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

namespace cohort {

size_t PayloadBytes(const Payload& payload) {
  size_t bytes = 0;
  for (const ByteSlice& slice : payload) bytes += slice.size;
  return bytes;
}

proto::TensorMeta MetaOf(const Tensor& tensor) {
  proto::TensorMeta meta;
  meta.set_dtype(static_cast<int32_t>(tensor.dtype()));
  for (const int64_t dim : tensor.shape().dims()) meta.add_dims(dim);
  return meta;
}

ByteSlice SliceOf(const Tensor& tensor) { return SliceOf(tensor, {0, tensor.num_bytes()}); }

ByteSlice SliceOf(const Tensor& tensor, ByteRange bytes) {
  ByteSlice slice{tensor.buffer(), tensor.raw() + bytes.begin, bytes.count};
  if (tensor.buffer() != nullptr) slice.memory = tensor.buffer()->memory();
  return slice;
}

absl::StatusOr<size_t> BytesOf(const proto::TensorMeta& meta) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(meta.dtype()));
  size_t bytes = ElementSize(dtype);
  if (bytes == 0) return absl::InvalidArgumentError("a tensor on the wire has an element type");
  bool empty = false;
  for (const int64_t dim : meta.dims()) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("negative tensor extent ", dim));
    if (dim == 0) {
      empty = true;  // the tensor has no bytes, but its other extents are checked as well
      continue;
    }
    // Sizes stay below 2^63, so that a shape's signed number of elements cannot overflow.
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes) ||
        bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError("tensor extents overflow 63 bits");
    }
  }
  return empty ? size_t{0} : bytes;
}

absl::StatusOr<Tensor> AllocateFor(const proto::TensorMeta& meta) {
  ASSIGN_OR_RETURN(const size_t bytes, BytesOf(meta));
  if (bytes > kTensorBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of ", bytes, " bytes; at most ", kTensorBytesMax));
  }
  return Tensor(static_cast<DType>(meta.dtype()), Shape(absl::MakeConstSpan(meta.dims())));
}

absl::Status PayloadReader::Read(absl::Span<std::byte> out) {
  if (out.size() > remaining()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the payload has ", remaining(), " bytes left where the header says ", out.size()));
  }
  while (!out.empty()) {
    const ByteSlice& slice = payload_[slice_];
    const size_t count = std::min(out.size(), slice.size - offset_);
    if (count > 0) std::memcpy(out.data(), slice.data + offset_, count);
    out.remove_prefix(count);
    Pass(count);
  }
  return absl::OkStatus();
}

void PayloadReader::Pass(size_t count) {
  offset_ += count;
  left_ -= count;
  // The reader moves to the next slice as soon as it has read all of a slice, because Kept only
  // looks at the current slice.
  if (offset_ == payload_[slice_].size) {
    ++slice_;
    offset_ = 0;
  }
}

std::shared_ptr<Buffer> PayloadReader::Kept(size_t bytes, size_t element_bytes) {
  if (bytes == 0) return nullptr;
  const ByteSlice& slice = payload_[slice_];
  const bool here = slice.buffer != nullptr && slice.size - offset_ >= bytes;
  // A small tensor would keep the whole buffer of its slice alive, so the tensor is copied instead.
  if (!here || bytes < slice.size / 2) return nullptr;
  // The kernels read elements in place, so a tensor that keeps the buffer must begin at an aligned
  // address.
  const bool aligned = reinterpret_cast<uintptr_t>(slice.data + offset_) % element_bytes == 0;
  return aligned ? slice.buffer : nullptr;
}

absl::StatusOr<Tensor> PayloadReader::ReadTensor(const proto::TensorMeta& meta) {
  ASSIGN_OR_RETURN(const size_t bytes, BytesOf(meta));
  // The tensor's size is checked against the payload before memory is allocated: a header may claim
  // any size, but the bytes of the payload have arrived already.
  if (bytes > remaining()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the payload has ", remaining(), " bytes left where the header says ", bytes));
  }
  const auto dtype = static_cast<DType>(meta.dtype());
  if (std::shared_ptr<Buffer> buffer = Kept(bytes, ElementSize(dtype))) {
    const auto begin = static_cast<size_t>(payload_[slice_].data + offset_ - buffer->data());
    Pass(bytes);
    return Tensor(dtype, Shape(absl::MakeConstSpan(meta.dims())), std::move(buffer), begin);
  }
  ASSIGN_OR_RETURN(Tensor tensor, AllocateFor(meta));
  RETURN_IF_ERROR(Read(absl::MakeSpan(tensor.mutable_raw(), bytes)));
  return tensor;
}

absl::StatusOr<std::vector<Tensor>> ReadTensors(
    const google::protobuf::RepeatedPtrField<proto::TensorMeta>& metas, const Payload& payload) {
  PayloadReader reader(payload);
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(metas.size()));
  for (const proto::TensorMeta& meta : metas) {
    ASSIGN_OR_RETURN(Tensor tensor, reader.ReadTensor(meta));
    tensors.push_back(std::move(tensor));
  }
  if (reader.remaining() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the payload has ", reader.remaining(), " bytes after the last tensor"));
  }
  return tensors;
}

uint32_t PayloadCrc32c(const Payload& payload) { return ExtendCrc32c(0, payload); }

uint32_t ExtendCrc32c(uint32_t crc, const Payload& payload) {
  for (const ByteSlice& slice : payload) {
    crc =
        ExtendCrc32c(crc, absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size));
  }
  return crc;
}

}  // namespace cohort
