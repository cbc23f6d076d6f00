#pragma once

// The payload of a frame as one run of bytes, though it may have come in pieces.

#include <cstddef>
#include <vector>

#include "common/wire/message.h"

namespace cohort {

// Returns where bytes [offset, offset + size) of the payload lie: in place or, if a border of
// pieces is among them, copied to `spare`, which grows as needed.
const std::byte* BytesAt(const Payload& payload, size_t offset, size_t size,
                         std::vector<std::byte>& spare);

// Returns how many bytes from `offset` on lie in place; 0 at the end.
size_t BytesInPiece(const Payload& payload, size_t offset);

// Copies bytes [0, size) to `to`.
void CopyPayload(const Payload& payload, size_t size, std::byte* to);

}  // namespace cohort
