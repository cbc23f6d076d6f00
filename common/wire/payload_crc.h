#pragma once

#include <cstdint>

#include "common/wire/message.h"

namespace cohort {

// CRC-32C, unmasked, of all bytes.
uint32_t PayloadCrc32c(const Payload& payload);

}  // namespace cohort
