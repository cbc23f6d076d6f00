#pragma once

// Assembles a payload that arrives in parts, one after another, in one contiguous range of memory.
// The sender's numbers are not trusted: a payload has a limit, a part must fit into what is left of
// the payload, and memory that no part has reached is not touched. An incomplete payload is never
// handed out, so a message whose parts stop coming counts as never sent.

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/message.h"
#include "common/wire/receive_memory.h"

namespace cohort {

// Assembles one payload at a time. Thread-compatible.
class PayloadAssembler {
 public:
  PayloadAssembler(size_t bytes_max, std::shared_ptr<ReceivePool> pool)
      : bytes_max_(bytes_max), pool_(std::move(pool)) {}

  // Begins a payload of `bytes`. Errors: INVALID_ARGUMENT if another payload is under way or
  // `bytes` is 0; RESOURCE_EXHAUSTED if `bytes` is above the limit.
  absl::Status Begin(size_t bytes);

  // Returns the memory for the next part of the payload. The caller fills the memory before it
  // calls any other function of the assembler. Errors: INVALID_ARGUMENT for an empty part, or for a
  // part that is longer than the rest of the payload.
  absl::StatusOr<absl::Span<std::byte>> Next(size_t bytes);
  absl::Status Add(absl::Span<const std::byte> part);

  bool under_way() const { return buffer_ != nullptr; }
  bool complete() const { return buffer_ != nullptr && filled_ == bytes_; }
  // Returns the payload, which must be complete. Afterwards the next payload may begin.
  ByteSlice Take();

 private:
  const size_t bytes_max_;
  // The pool that gives the payloads' memory. Shared with the payloads that were handed out.
  const std::shared_ptr<ReceivePool> pool_;
  // The memory of the payload under way; null between payloads. Shared with the readers of a
  // complete payload.
  std::shared_ptr<Buffer> buffer_;
  size_t bytes_ = 0;  // size of the payload under way
  size_t filled_ = 0;
};

// Returns the bytes [begin, begin + count) of a payload as slices of the same memory.
Payload PartOf(const Payload& payload, size_t begin, size_t count);
// Returns a payload of one slice, with a copy of all bytes of `payload` in new memory.
Payload CopyOf(const Payload& payload);

}  // namespace cohort
