#pragma once

// A pushed tensor arrives as memory slices whose borders fall anywhere, even inside an element, and
// with any alignment. The cursor hands the tensor out in blocks of whole elements. A block that
// lies in one memory slice and is aligned is read straight from the message; any other block is
// copied into a scratch block that stays in the first-level cache. Blocks have the same borders
// however the message was cut, so arithmetic on them gives the same bits.

#include <cstddef>
#include <memory>

#include "common/wire/message.h"

namespace cohort {

// The size of every block but the last; a multiple of each element size and vector width.
inline constexpr size_t kBlockBytes = size_t{16} << 10;

// The position in a pushed payload that is read from front to back. Thread-compatible.
class PayloadCursor {
 public:
  explicit PayloadCursor(const Payload& payload) : payload_(payload) {}

  // Returns the next `size` <= kBlockBytes bytes of the payload, aligned for any element type and
  // valid until the next call. The caller has checked that the payload has so many bytes left.
  const std::byte* Next(size_t size);

  // Returns the next `size` bytes of the payload in one piece: in the message's own memory, or
  // copied into `copy`. The bytes are aligned for any element type, and valid as long as the
  // payload and `copy`.
  const std::byte* NextWhole(size_t size, std::shared_ptr<Buffer>& copy);

  // Skips `size` bytes of the payload.
  void Skip(size_t size);

  // Copies the next `size` bytes of the payload to `out`.
  void CopyTo(std::byte* out, size_t size);

 private:
  // Returns the number of unread bytes in the current memory slice, at least one.
  size_t AtHand();
  // Returns the next `size` > 0 bytes in the message's own memory, or null if they are not aligned
  // or not in one memory slice.
  const std::byte* InPlace(size_t size);

  const Payload& payload_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // the read position in payload_[slice_]
  alignas(64) std::byte scratch_[kBlockBytes];
};

}  // namespace cohort
