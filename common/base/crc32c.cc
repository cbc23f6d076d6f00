#include "common/base/crc32c.h"

#include <array>
#include <cstring>

namespace cohort {

namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ExtendByTable(uint32_t state, const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    state = kTable[(state ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (state >> 8);
  }
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t state, const char* data,
                                                               size_t size) {
  uint64_t wide = state;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  state = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) {
    state = __builtin_ia32_crc32qi(state, static_cast<unsigned char>(*data));
  }
  return state;
}
#endif

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~ExtendByInstruction(~crc, bytes.data(), bytes.size());
#endif
  return ~ExtendByTable(~crc, bytes.data(), bytes.size());
}

uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

}  // namespace cohort
