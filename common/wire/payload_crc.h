#pragma once

#include <cstdint>

#include "common/wire/message.h"

namespace cohort {

// Returns the CRC-32C of all bytes of a payload, unmasked.
uint32_t PayloadCrc32c(const Payload& payload);
// Continues `crc`, the CRC-32C of the bytes before the payload, over the payload.
uint32_t ExtendCrc32c(uint32_t crc, const Payload& payload);

}  // namespace cohort
