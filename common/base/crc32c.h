#pragma once

// CRC-32C checksums (Castagnoli polynomial 0x1edc6f41, RFC 3720 appendix B.4), computed with the
// processor's CRC instruction if the processor has such an instruction.

#include <cstdint>

#include "absl/strings/string_view.h"

namespace cohort {

uint32_t Crc32c(absl::string_view bytes);
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

// Returns the masked form in which LevelDB and TensorFlow store a CRC: the CRC rotated right by 15
// bits plus a constant. The mask keeps a CRC strong when the checksummed bytes contain a CRC
// themselves.
constexpr uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
constexpr uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace cohort
