#include "common/wire/payload_crc.h"

#include "absl/strings/string_view.h"
#include "common/base/crc32c.h"

namespace cohort {

uint32_t PayloadCrc32c(const Payload& payload) { return ExtendCrc32c(0, payload); }

uint32_t ExtendCrc32c(uint32_t crc, const Payload& payload) {
  for (const ByteSlice& slice : payload) {
    crc =
        ExtendCrc32c(crc, absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size));
  }
  return crc;
}

}  // namespace cohort
