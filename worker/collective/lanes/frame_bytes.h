#pragma once

// Access to the payload of a frame as one run of bytes, although the payload may have arrived in
// several pieces.

#include <cstddef>
#include <vector>

#include "common/wire/message.h"

namespace cohort {

// Returns the address of bytes [offset, offset + size) of the payload. If these bytes lie in
// several pieces, they are copied to `spare`, which grows as needed.
const std::byte* BytesAt(const Payload& payload, size_t offset, size_t size,
                         std::vector<std::byte>& spare);

// Returns how many bytes of the payload are contiguous in memory from `offset` on; 0 at the end of
// the payload.
size_t BytesInPiece(const Payload& payload, size_t offset);

// Copies bytes [0, size) of the payload to `to`.
void CopyPayload(const Payload& payload, size_t size, std::byte* to);

}  // namespace cohort
