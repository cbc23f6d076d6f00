#pragma once

// The one shape of the messages of all calls: a small protobuf header, then tensors as raw memory.
// On the wire a message is byte-compatible with the declared proto, whose last field is `bytes
// payload = 1000` (frame.h holds the codec). The slices of a payload share ownership of the memory
// that they point at. A sender copies nothing. A receiver copies once, from the slices in which the
// bytes arrived into the tensor that wants the bytes. A large payload arrives in parts that are put
// together in one slice.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/tensor.pb.h"

namespace cohort {

// A range of memory that stays valid and unchanged as long as `owner` lives.
struct ByteSlice {
  // The owner of the memory. The transport shares it until the bytes have been sent.
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  size_t size = 0;
  // The slice's memory as a Buffer that a tensor may keep instead of a copy; null if no tensor may.
  // The Buffer was assembled from parts for this message alone, or is lent by a variable's home in
  // this process (ps_server/slice/paged_value.h).
  std::shared_ptr<Buffer> buffer = nullptr;
  // The owner of the memory if the memory is not on the heap, else null. A transport that knows the
  // owner's type sends the bytes without a copy.
  std::shared_ptr<const BufferMemory> memory = nullptr;
};

using Payload = std::vector<ByteSlice>;

size_t PayloadBytes(const Payload& payload);

struct Message {
  std::string header;  // the serialized proto without its payload field
  Payload payload;
  // The approximate size of the answer's payload, if the caller knows it. The transport chooses a
  // route by this number; an answer of any other size arrives as well.
  size_t answer_bytes = 0;
  // Of a request: the longest time in which nothing moves on the call's connection before the call
  // ends with DEADLINE_EXCEEDED, however late its time-out is (moved_bytes.h). A transport that
  // does not see the bytes move counts from the start of the call.
  absl::Duration silence = absl::InfiniteDuration();
};

// Upper bound on a received tensor: a tensor arrives in one message.
inline constexpr size_t kTensorBytesMax = size_t{1} << 30;

// MetaOf returns the type and shape of a tensor as a proto. SliceOf returns a slice that sends the
// tensor's bytes, or the range `bytes` of them, without a copy.
proto::TensorMeta MetaOf(const Tensor& tensor);
ByteSlice SliceOf(const Tensor& tensor);
// A range of the bytes of a tensor.
struct ByteRange {
  size_t begin = 0;
  size_t count = 0;
};
ByteSlice SliceOf(const Tensor& tensor, ByteRange bytes);

// AllocateFor allocates the tensor that `meta` describes; BytesOf only returns the tensor's size.
// Errors: INVALID_ARGUMENT for an unknown type, and for a negative or overflowing extent; from
// AllocateFor also for more than kTensorBytesMax.
absl::StatusOr<Tensor> AllocateFor(const proto::TensorMeta& meta);
absl::StatusOr<size_t> BytesOf(const proto::TensorMeta& meta);

// Reads a payload from its start. A read may cross the borders of the payload's slices.
// Thread-compatible.
class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload)
      : payload_(payload), left_(PayloadBytes(payload)) {}

  // Copies the next bytes of the payload to `out`. Errors: INVALID_ARGUMENT if the payload has
  // fewer bytes left.
  absl::Status Read(absl::Span<std::byte> out);
  // Reads the next tensor of the payload. Copies its bytes, unless the tensor fills at least half
  // of a slice that has a `buffer`, and is aligned: such a tensor keeps the buffer. Errors:
  // INVALID_ARGUMENT if the payload has fewer bytes left, or `meta` is wrong.
  absl::StatusOr<Tensor> ReadTensor(const proto::TensorMeta& meta);
  size_t remaining() const { return left_; }

 private:
  // Returns the Buffer that holds the next `bytes` bytes of the payload if a tensor may keep it,
  // else null.
  std::shared_ptr<Buffer> Kept(size_t bytes, size_t element_bytes);
  void Pass(size_t count);

  const Payload& payload_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // position of the next byte in payload_[slice_]
  size_t left_;
};

// Reads all tensors of a message. Errors: INVALID_ARGUMENT if the payload is shorter or longer than
// the tensors that `metas` describes.
absl::StatusOr<std::vector<Tensor>> ReadTensors(
    const google::protobuf::RepeatedPtrField<proto::TensorMeta>& metas, const Payload& payload);

// Returns the CRC-32C of all bytes of a payload, unmasked.
uint32_t PayloadCrc32c(const Payload& payload);
// Continues `crc`, the CRC-32C of the bytes before the payload, over the payload.
uint32_t ExtendCrc32c(uint32_t crc, const Payload& payload);

}  // namespace cohort
