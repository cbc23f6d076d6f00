#include "common/base/crc32c.h"

#include <array>
#include <cstring>
#include <string>

namespace cohort {

namespace {

// Returns the table of the CRCs of all byte values, for the bit-reversed CRC-32C polynomial
// 0x82f63b78.
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

// Returns the CRC state `state` extended over the bytes at `data`, one byte at a time. A CRC state
// is the bitwise complement of a CRC.
uint32_t ExtendByTable(uint32_t state, const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    state = kTable[(state ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (state >> 8);
  }
  return state;
}

#if defined(__x86_64__)
// The length of a run. Three runs, which follow one another in memory, are checksummed at the same
// time, because the CRC instruction takes three cycles but can start in every cycle.
constexpr size_t kRunBytes = 2048;

// A function that maps a CRC state to the CRC state after `count` more zero bytes. The function is
// linear over XOR, so one table for each of the state's four bytes describes it.
class ZeroBytes {
 public:
  explicit ZeroBytes(size_t count) {
    const std::string zeros(count, '\0');
    for (uint32_t bit = 0; bit < 32; ++bit) {
      // The function is linear over XOR, so its result for a byte is the XOR of its results for the
      // set bits of that byte.
      const uint32_t after = ExtendByTable(uint32_t{1} << bit, zeros.data(), zeros.size());
      std::array<uint32_t, 256>& table = tables_[bit / 8];
      for (uint32_t byte = 0; byte < 256; ++byte) {
        if ((byte >> (bit % 8) & 1) != 0) table[byte] ^= after;
      }
    }
  }
  uint32_t Behind(uint32_t state) const {
    return tables_[0][state & 0xff] ^ tables_[1][state >> 8 & 0xff] ^
           tables_[2][state >> 16 & 0xff] ^ tables_[3][state >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> tables_{};
};

__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t state, const char* data,
                                                               size_t size) {
  static const ZeroBytes one_run(kRunBytes);
  uint64_t wide = state;
  for (; size >= 3 * kRunBytes; data += 3 * kRunBytes, size -= 3 * kRunBytes) {
    // The CRC states of the second and the third run start from 0, so that an XOR can add them to
    // the CRC state of the first run.
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t at = 0; at < kRunBytes; at += 8) {
      uint64_t words[3];
      for (size_t run = 0; run < 3; ++run) {
        std::memcpy(&words[run], data + run * kRunBytes + at, 8);
      }
      wide = __builtin_ia32_crc32di(wide, words[0]);
      second = __builtin_ia32_crc32di(second, words[1]);
      third = __builtin_ia32_crc32di(third, words[2]);
    }
    // CRC states are linear over XOR: the state after the bytes A and B is the state after A and as
    // many zero bytes as B has, XOR the state after B alone.
    wide = one_run.Behind(static_cast<uint32_t>(wide)) ^ second;
    wide = one_run.Behind(static_cast<uint32_t>(wide)) ^ third;
  }
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
