#pragma once

// Puts a payload together that comes in parts, one after another, into one piece of memory. The
// sender's word is not taken for more than it is: a payload has a limit, a part fits into what is
// left, and memory that no part has reached is not touched. What is not complete is never handed
// out, so a message whose parts stop coming is as if never sent.

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

  // A payload of `bytes` follows. Errors: INVALID_ARGUMENT when one is under way, and for no bytes;
  // RESOURCE_EXHAUSTED for more than the limit.
  absl::Status Begin(size_t bytes);

  // Where the next part belongs, which is then to be filled before anything else is asked. Errors:
  // INVALID_ARGUMENT for an empty part, or one that is longer than what is left.
  absl::StatusOr<absl::Span<std::byte>> Next(size_t bytes);
  absl::Status Add(absl::Span<const std::byte> part);

  bool under_way() const { return buffer_ != nullptr; }
  bool complete() const { return buffer_ != nullptr && filled_ == bytes_; }
  // Of a complete one; then the next may begin.
  ByteSlice Take();

 private:
  const size_t bytes_max_;
  // Shared with the payloads that were handed out.
  const std::shared_ptr<ReceivePool> pool_;
  std::shared_ptr<Buffer> buffer_;  // null: none is under way. Shared with its readers later
  size_t bytes_ = 0;                // of the payload
  size_t filled_ = 0;
};

// The bytes [begin, begin + count) of a payload, by reference.
Payload PartOf(const Payload& payload, size_t begin, size_t count);
// All of them, in memory of their own.
Payload CopyOf(const Payload& payload);

}  // namespace cohort
