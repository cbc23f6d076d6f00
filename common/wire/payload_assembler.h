#pragma once

// The assembly of a payload that comes in parts, one after another, in one piece of memory. The
// sender's word is not trusted: a payload has a limit, a part must fit into what is left, and
// memory that no part has reached is not touched. An incomplete payload is never handed out, so a
// message whose parts stop coming counts as never sent.

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/message.h"
#include "common/wire/receive_pool.h"

namespace cohort {

// Thread-compatible.
class PayloadAssembler {
 public:
  PayloadAssembler(size_t bytes_max, std::shared_ptr<ReceivePool> pool)
      : bytes_max_(bytes_max), pool_(std::move(pool)) {}

  // Begins a payload of `bytes`. Errors: INVALID_ARGUMENT if one is under way, and for no bytes;
  // RESOURCE_EXHAUSTED above the limit.
  absl::Status Begin(size_t bytes);

  // Returns where the next part belongs; the caller fills it before anything else is asked. Errors:
  // INVALID_ARGUMENT for an empty part, or one that is longer than what is left.
  absl::StatusOr<absl::Span<std::byte>> Next(size_t bytes);
  absl::Status Add(absl::Span<const std::byte> part);

  bool under_way() const { return buffer_ != nullptr; }
  bool complete() const { return buffer_ != nullptr && filled_ == bytes_; }
  // Returns a complete payload; then the next may begin.
  ByteSlice Take();

 private:
  const size_t bytes_max_;
  // Shared with the payloads that were handed out.
  const std::shared_ptr<ReceivePool> pool_;
  std::shared_ptr<Buffer> buffer_;  // null: none is under way. Shared with its readers later
  size_t bytes_ = 0;                // size of the payload
  size_t filled_ = 0;
};

// Returns the bytes [begin, begin + count) of a payload, by reference.
Payload PartOf(const Payload& payload, size_t begin, size_t count);
// Copies all bytes into memory of their own.
Payload CopyOf(const Payload& payload);

}  // namespace cohort
