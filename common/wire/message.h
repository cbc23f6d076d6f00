#pragma once

// One message shape for every call: a small protobuf header, then tensors as raw memory. On the
// wire the whole is byte-compatible with the declared proto, whose last field is `bytes payload =
// 1000` (frame.h holds the codec). Payload slices share ownership of the memory they point at;
// nothing is copied on the way out, and a receiver copies once, from the slices in which the bytes
// arrived into the tensor that it wants them in. A large payload comes in parts and is one slice.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/tensor.pb.h"

namespace cohort {

// Memory that stays valid and unchanged as long as `owner` lives.
struct ByteSlice {
  std::shared_ptr<const void> owner;  // shared: the transport releases it when the bytes have left
  const std::byte* data = nullptr;
  size_t size = 0;
  // The memory, where a tensor may keep it instead of a copy: it came in parts and was put together
  // for this message alone, or is lent by a home in this process (ps_server/slice/paged_value.h).
  std::shared_ptr<Buffer> buffer = nullptr;
  // The memory of bytes to be sent, if it is not the heap's.
  std::shared_ptr<const BufferMemory> memory = nullptr;
};

using Payload = std::vector<ByteSlice>;

size_t PayloadBytes(const Payload& payload);

struct Message {
  std::string header;  // the serialized proto without its payload field
  Payload payload;
  // The approximate bytes of the answer's payload, if the caller of a request knows them. The
  // transport picks a way by this number; an answer of any other size arrives as well.
  size_t answer_bytes = 0;
};

// Upper bound of a received tensor: it arrives in one message.
inline constexpr size_t kTensorBytesMax = size_t{1} << 30;

// Returns the meta of a tensor. SliceOf returns the slice that sends its bytes without a copy.
proto::TensorMeta MetaOf(const Tensor& tensor);
ByteSlice SliceOf(const Tensor& tensor);
// A part of a tensor's bytes.
struct ByteRange {
  size_t begin = 0;
  size_t count = 0;
};
ByteSlice SliceOf(const Tensor& tensor, ByteRange bytes);

// Errors: INVALID_ARGUMENT for an unknown type, a negative or overflowing extent, and from
// AllocateFor for more than kTensorBytesMax.
absl::StatusOr<Tensor> AllocateFor(const proto::TensorMeta& meta);
absl::StatusOr<size_t> BytesOf(const proto::TensorMeta& meta);

// Reads a payload from its start, across slice borders. Thread-compatible.
class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload)
      : payload_(payload), left_(PayloadBytes(payload)) {}

  // Errors: INVALID_ARGUMENT when fewer bytes are left.
  absl::Status Read(absl::Span<std::byte> out);
  // Reads a tensor. A tensor that is most of a `buffer` keeps the buffer, without a copy.
  absl::StatusOr<Tensor> ReadTensor(const proto::TensorMeta& meta);
  size_t remaining() const { return left_; }

 private:
  // Returns where the next bytes lie if a tensor may keep them, else null.
  std::shared_ptr<Buffer> Kept(size_t bytes, size_t element_bytes);
  void Pass(size_t count);

  const Payload& payload_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // in payload_[slice_]
  size_t left_;
};

// Reads all tensors of a message. Errors: INVALID_ARGUMENT if metas and payload disagree in size.
absl::StatusOr<std::vector<Tensor>> ReadTensors(
    const google::protobuf::RepeatedPtrField<proto::TensorMeta>& metas, const Payload& payload);

}  // namespace cohort
