#pragma once

// A pushed tensor arrives as memory slices whose borders fall anywhere, even inside an element, and
// at any alignment. The cursor hands it out in blocks of whole elements: straight from the message
// where a block lies in one slice and is aligned, else through a scratch block that stays in the
// first-level cache. Blocks have the same borders however the message was cut, so that arithmetic
// on them gives the same bits.

#include <cstddef>
#include <memory>

#include "common/wire/message.h"

namespace cohort {

// Bytes of a block but the last; a multiple of every element size and vector width.
inline constexpr size_t kBlockBytes = size_t{16} << 10;

// Thread-compatible.
class PayloadCursor {
 public:
  explicit PayloadCursor(const Payload& payload) : payload_(payload) {}

  // Returns the next `size` <= kBlockBytes bytes, aligned for any element, valid until the next
  // call. The caller has checked that the payload has them.
  const std::byte* Next(size_t size);

  // Returns the next `size` bytes in one piece: where they lie, or put together in `copy`. They are
  // aligned for any element, and valid as long as the payload and `copy`.
  const std::byte* NextWhole(size_t size, std::shared_ptr<Buffer>& copy);

  // Passes over `size` bytes.
  void Skip(size_t size);

  // Copies the next `size` bytes to `out`.
  void CopyTo(std::byte* out, size_t size);

 private:
  // Returns the number of bytes at hand in the current slice, at least one.
  size_t AtHand();
  // Returns the next `size` > 0 bytes where they lie, or null if they are not aligned or not in one
  // slice.
  const std::byte* InPlace(size_t size);

  const Payload& payload_;
  size_t slice_ = 0;
  size_t offset_ = 0;  // in payload_[slice_]
  alignas(64) std::byte scratch_[kBlockBytes];
};

}  // namespace cohort
