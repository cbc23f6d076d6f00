#pragma once

#include <cstdint>

#include "common/wire/message.h"

namespace cohort {

// Returns the CRC-32C of all bytes, unmasked.
uint32_t PayloadCrc32c(const Payload& payload);
// Continues `crc`, that of what is before the payload.
uint32_t ExtendCrc32c(uint32_t crc, const Payload& payload);

}  // namespace cohort
