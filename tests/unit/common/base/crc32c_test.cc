#include "common/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/rng.h"

namespace cohort {
namespace {

// RFC 3720, appendix B.4 (written there byte by byte, least significant first).
TEST(Crc32c, VectorsOfRfc3720) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
  const unsigned char read_command[48] = {
      0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(Crc32c({reinterpret_cast<const char*>(read_command), sizeof(read_command)}),
            0xd9963a56u);
}

// The check value that every catalogue of CRCs gives.
TEST(Crc32c, CheckValue) { EXPECT_EQ(Crc32c("123456789"), 0xe3069283u); }

TEST(Crc32c, EmptyIsZero) { EXPECT_EQ(Crc32c(""), 0u); }

// Bit by bit from the definition, for every length and alignment that the fast path treats apart.
uint32_t Slow(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, EveryLengthAlignmentAndSplit) {
  std::string text;
  for (int i = 0; i < 64; ++i) text.push_back(static_cast<char>(i * 37 + 11));
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; begin + length <= text.size(); ++length) {
      const absl::string_view part = absl::string_view(text).substr(begin, length);
      EXPECT_EQ(Crc32c(part), Slow(part));
      const size_t split = length / 3;
      EXPECT_EQ(ExtendCrc32c(Crc32c(part.substr(0, split)), part.substr(split)), Slow(part));
    }
  }
}

TEST(Crc32c, LengthsAroundTheRunsThatAreSummedAtOnce) {
  constexpr size_t kRuns = 3 * 2048;
  std::string text;
  for (size_t i = 0; i < 3 * kRuns; ++i) text.push_back(static_cast<char>(Mix64(i)));
  for (const size_t runs : {kRuns, 2 * kRuns}) {
    for (size_t length = runs - 9; length <= runs + 9; ++length) {
      const absl::string_view part = absl::string_view(text).substr(3, length);
      EXPECT_EQ(Crc32c(part), Slow(part)) << length;
      EXPECT_EQ(ExtendCrc32c(Crc32c(part.substr(0, 5)), part.substr(5)), Slow(part)) << length;
    }
  }
}

TEST(Crc32c, MaskIsInvertibleAndChanges) {
  const uint32_t crc = Crc32c("foo");
  EXPECT_NE(MaskCrc32c(crc), crc);
  EXPECT_NE(MaskCrc32c(MaskCrc32c(crc)), crc);
  EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  // By hand: rotated right by 15 bits, plus 0xa282ead8.
  EXPECT_EQ(MaskCrc32c(0x00008000u), 0xa282ead9u);
}

}  // namespace
}  // namespace cohort
