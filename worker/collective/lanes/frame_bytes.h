#pragma once

// Reads the payload of a frame as one sequence of bytes, although the payload may have arrived in
// several pieces.

#include <cstddef>
#include <vector>

#include "common/wire/message.h"

namespace cohort {

// Returns the address of the bytes [offset, offset + size) of the payload. If these bytes lie in
// several pieces, they are copied to `spare`, which grows if necessary.
const std::byte* BytesAt(const Payload& payload, size_t offset, size_t size,
                         std::vector<std::byte>& spare);

// Returns the number of bytes of the payload that are contiguous in memory from `offset` on; 0 at
// the end of the payload.
size_t BytesInPiece(const Payload& payload, size_t offset);

// Copies the bytes [0, size) of the payload to `to`.
void CopyPayload(const Payload& payload, size_t size, std::byte* to);

}  // namespace cohort
