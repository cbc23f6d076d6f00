#include "ps_server/slice/payload_cursor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

TEST(PayloadCursor, HandsOutAlignedMemoryOfTheMessageItself) {
  const Tensor tensor(DType::kFloat32, Shape{16});
  const Payload payload = {SliceOf(tensor)};
  PayloadCursor cursor(payload);
  EXPECT_EQ(cursor.Next(32), tensor.raw());
  EXPECT_EQ(cursor.Next(32), tensor.raw() + 32);
}

TEST(PayloadCursor, JoinsBlocksThatAreCutOrUnaligned) {
  std::vector<uint8_t> bytes(70);
  std::iota(bytes.begin(), bytes.end(), 0);
  const Payload payload = CutAt(Tensor::FromVector(bytes, Shape{70}), {3, 3, 5, 41});
  PayloadCursor cursor(payload);
  cursor.Skip(2);
  const std::byte* const block = cursor.Next(64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 8, 0u);
  EXPECT_EQ(std::memcmp(block, bytes.data() + 2, 64), 0);
  std::byte rest[4];
  cursor.CopyTo(rest, 4);
  EXPECT_EQ(std::memcmp(rest, bytes.data() + 66, 4), 0);
}

TEST(PayloadCursor, RandomCutsGiveTheSameBytes) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 200; ++seed) {
    SCOPED_TRACE(Replay(seed, "PayloadCursor.*"));
    SequenceRng rng(seed);
    std::vector<uint8_t> bytes(1 + rng.Below(4096));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.Next());
    std::vector<size_t> cuts;
    for (uint64_t i = rng.Below(20); i > 0; --i) cuts.push_back(rng.Below(bytes.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    const Tensor tensor = Tensor::FromVector(bytes, Shape{static_cast<int64_t>(bytes.size())});
    const Payload payload = CutAt(tensor, cuts);
    PayloadCursor cursor(payload);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min(bytes.size() - at, 1 + rng.Below(300));
      if (rng.Below(4) == 0) {
        cursor.Skip(size);
      } else {
        ASSERT_EQ(std::memcmp(cursor.Next(size), bytes.data() + at, size), 0);
      }
      at += size;
    }
  }
}

}  // namespace
}  // namespace cohort
