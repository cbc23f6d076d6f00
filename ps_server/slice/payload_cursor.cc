#include "ps_server/slice/payload_cursor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"

namespace cohort {

namespace {
constexpr size_t kElementAlignment = 8;  // alignment in bytes that is enough for every element type
}

size_t PayloadCursor::AtHand() {
  // Skips memory slices that have been read completely or are empty, so that at least one unread
  // byte remains in the current slice.
  while (slice_ < payload_.size() && offset_ == payload_[slice_].size) {
    ++slice_;
    offset_ = 0;
  }
  COHORT_CHECK(slice_ < payload_.size(), "the payload was measured before it is read");
  return payload_[slice_].size - offset_;
}

const std::byte* PayloadCursor::InPlace(size_t size) {
  const size_t at_hand = AtHand();
  const std::byte* const here = payload_[slice_].data + offset_;
  // Reading an element from unaligned memory is undefined behaviour. For a null result the caller
  // copies the bytes.
  if (at_hand < size || reinterpret_cast<uintptr_t>(here) % kElementAlignment != 0) return nullptr;
  offset_ += size;
  return here;
}

const std::byte* PayloadCursor::Next(size_t size) {
  COHORT_CHECK(size <= kBlockBytes, "a block");
  if (size == 0) return scratch_;
  if (const std::byte* const here = InPlace(size)) return here;
  CopyTo(scratch_, size);
  return scratch_;
}

const std::byte* PayloadCursor::NextWhole(size_t size, std::shared_ptr<Buffer>& copy) {
  if (size == 0) return scratch_;
  if (const std::byte* const here = InPlace(size)) return here;
  copy = Buffer::Allocate(size);
  CopyTo(copy->data(), size);
  return copy->data();
}

void PayloadCursor::Skip(size_t size) {
  while (size > 0) {
    const size_t step = std::min(size, AtHand());
    offset_ += step;
    size -= step;
  }
}

void PayloadCursor::CopyTo(std::byte* out, size_t size) {
  while (size > 0) {
    const size_t step = std::min(size, AtHand());
    std::memcpy(out, payload_[slice_].data + offset_, step);
    out += step;
    offset_ += step;
    size -= step;
  }
}

}  // namespace cohort
