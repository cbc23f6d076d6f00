#include "worker/collective/lanes/frame_bytes.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace cohort {

const std::byte* BytesAt(const Payload& payload, size_t offset, size_t size,
                         std::vector<std::byte>& spare) {
  size_t piece = 0;
  while (piece < payload.size() && offset >= payload[piece].size) offset -= payload[piece++].size;
  COHORT_CHECK(piece < payload.size(), "the bytes lie inside the payload");
  // Bytes that lie in one piece of the payload are not copied.
  if (offset + size <= payload[piece].size) return payload[piece].data + offset;
  // The bytes lie in several pieces of the payload and are copied to `spare`.
  if (spare.size() < size) spare.resize(size);
  size_t copied = 0;
  for (; copied < size; ++piece, offset = 0) {
    COHORT_CHECK(piece < payload.size(), "the bytes lie inside the payload");
    const size_t part = std::min(size - copied, payload[piece].size - offset);
    std::memcpy(spare.data() + copied, payload[piece].data + offset, part);
    copied += part;
  }
  return spare.data();
}

size_t BytesInPiece(const Payload& payload, size_t offset) {
  size_t piece = 0;
  while (piece < payload.size() && offset >= payload[piece].size) offset -= payload[piece++].size;
  return piece == payload.size() ? 0 : payload[piece].size - offset;
}

void CopyPayload(const Payload& payload, size_t size, std::byte* to) {
  for (const ByteSlice& piece : payload) {
    const size_t part = std::min(size, piece.size);
    if (part > 0) std::memmove(to, piece.data, part);
    to += part;
    size -= part;
  }
  COHORT_CHECK(size == 0, "the bytes lie inside the payload");
}

}  // namespace cohort
