#pragma once

// Reads a pushed payload in blocks of whole elements. The payload is a list of memory slices (spans
// of memory as they arrived), whose borders may lie anywhere, even inside an element, and which may
// have any alignment. If a block lies in one memory slice and is aligned, the cursor returns its
// address in the message; otherwise the cursor copies the block to scratch memory, which is small
// enough to stay in the first-level cache. The borders of the blocks do not depend on the memory
// slices, so arithmetic on the blocks gives the same bits every time.

#include <cstddef>
#include <memory>

#include "common/wire/message.h"

namespace cohort {

// The largest number of bytes that PayloadCursor::Next returns at once. It is a multiple of each
// element size and vector width.
inline constexpr size_t kBlockBytes = size_t{16} << 10;

// A position in a pushed payload, which is read from front to back. Thread-compatible.
class PayloadCursor {
 public:
  explicit PayloadCursor(const Payload& payload) : payload_(payload) {}

  // Returns the address of the next `size` <= kBlockBytes bytes of the payload, aligned for any
  // element type and valid until the next call. The caller has checked that the payload has at
  // least `size` unread bytes.
  const std::byte* Next(size_t size);

  // Returns the address of the next `size` bytes of the payload, contiguous and aligned for any
  // element type. If the bytes do not lie so in the message's memory, they are copied into `copy`.
  // The address is valid as long as the payload and `copy` exist.
  const std::byte* NextWhole(size_t size, std::shared_ptr<Buffer>& copy);

  // Skips `size` bytes of the payload.
  void Skip(size_t size);

  // Copies the next `size` bytes of the payload to `out`.
  void CopyTo(std::byte* out, size_t size);

 private:
  // Returns the number of unread bytes in the current memory slice of the payload, at least one.
  size_t AtHand();
  // Returns the address of the next `size` > 0 bytes of the payload in the message's memory, or
  // null if these bytes are not aligned or do not lie in one memory slice.
  const std::byte* InPlace(size_t size);

  const Payload& payload_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // number of bytes that were read from payload_[slice_]
  alignas(64) std::byte scratch_[kBlockBytes];
};

}  // namespace cohort
