#include "ps_server/table/row_index.h"

#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

// Rows with a hash each, and the index under test. Thread-compatible.
class Indexed {
 public:
  void Insert(uint32_t row, uint64_t hash) {
    hashes_[row] = hash;
    if (index.full()) {
      index.Grow([this](uint32_t r) { return hashes_.at(r); }, [](uint32_t) {});
    }
    index.Insert(hash, row);
  }
  void Erase(uint32_t row) {
    index.Erase(hashes_.at(row), row);
    hashes_.erase(row);
  }
  uint32_t Find(uint32_t row, uint64_t hash) const {
    return index.Find(hash, [row](uint32_t other) { return other == row; });
  }
  const std::map<uint32_t, uint64_t>& hashes() const { return hashes_; }

  RowIndex index;

 private:
  std::map<uint32_t, uint64_t> hashes_;
};

TEST(RowIndexTest, FindsOneRowAndNoOther) {
  Indexed rows;
  EXPECT_EQ(rows.Find(7, 42), RowIndex::kNone);
  rows.Insert(7, 42);
  EXPECT_EQ(rows.Find(7, 42), 7u);
  EXPECT_EQ(rows.index.Guess(42), 7u);
  EXPECT_EQ(rows.Find(8, 42), RowIndex::kNone) << "the tag alone decides nothing";
  EXPECT_EQ(rows.index.Guess(uint64_t{1} << 12), RowIndex::kNone) << "another tag";
}

TEST(RowIndexTest, AGroupOverflowsIntoTheNextAndIsFoundAgain) {
  Indexed rows;
  for (uint32_t row = 0; row < 200; ++row) rows.Insert(row, ~uint64_t{0});  // the last group
  for (uint32_t row = 0; row < 200; ++row) EXPECT_EQ(rows.Find(row, ~uint64_t{0}), row);
  EXPECT_EQ(rows.index.rows(), 200u);
}

TEST(RowIndexTest, ErasingWhatOthersPassedLosesNoneOfThem) {
  Indexed rows;
  for (uint32_t row = 0; row < 40; ++row) rows.Insert(row, 0x1234);
  for (uint32_t row = 0; row < 40; row += 2) rows.Erase(row);
  for (uint32_t row = 0; row < 40; ++row) {
    EXPECT_EQ(rows.Find(row, 0x1234), row % 2 == 0 ? RowIndex::kNone : row);
  }
}

// Without counts that go down again a search for what is missing would look through all groups.
TEST(RowIndexTest, AnErasedOverflowIsNotSearched) {
  Indexed rows;
  for (uint32_t row = 0; row < 100; ++row) rows.Insert(row, Mix64(row));
  for (uint32_t row = 200; row < 220; ++row) rows.Insert(row, 0x1234);
  for (uint32_t row = 200; row < 220; ++row) rows.Erase(row);
  for (uint32_t row = 0; row < 100; ++row) rows.Erase(row);
  rows.Insert(0, 0x1234);
  rows.Insert(1, 0x1234);
  int asked = 0;
  rows.index.Find(0x1234, [&](uint32_t) {
    ++asked;
    return false;
  });
  EXPECT_EQ(asked, 2);
  // A row in the next group, which nothing has overflowed into: it is not looked at.
  const uint64_t next_group = ((~uint64_t{0} / 8) & ~uint64_t{0xffff}) | 0x1234;
  rows.Insert(2, next_group);
  asked = 0;
  rows.index.Find(0x1234, [&](uint32_t) {
    ++asked;
    return false;
  });
  EXPECT_EQ(asked, 2);
}

TEST(RowIndexTest, MemoryForARowIsAtMostEightBytesAndTheLoadIsBounded) {
  Indexed rows;
  for (uint32_t row = 0; row < 50000; ++row) {
    rows.Insert(row, Mix64(row + 1));
    if (row < 1000) continue;
    EXPECT_LE(rows.index.bytes(), 8.05 * rows.index.rows());
  }
}

// Few distinct hashes, so that groups overflow all the time.
TEST(RowIndexTest, BehavesAsAMapUnderRandomOperations) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(Replay("ps_table_test", seed, "RowIndexTest.*Random*"));
  SequenceRng rng(seed);
  Indexed rows;
  for (uint32_t step = 0; step < 20000; ++step) {
    const uint32_t row = static_cast<uint32_t>(rng.Below(600));
    const auto known = rows.hashes().find(row);
    if (known == rows.hashes().end()) {
      rows.Insert(row, Mix64(rng.Below(20)));
    } else if (rng.Below(2) == 0) {
      rows.Erase(row);
    } else {
      ASSERT_EQ(rows.Find(row, known->second), row) << "step " << step;
    }
    if (step % 500 != 0) continue;
    ASSERT_EQ(rows.index.rows(), rows.hashes().size());
    for (const auto& [r, hash] : rows.hashes()) ASSERT_EQ(rows.Find(r, hash), r);
  }
}

// Above half a huge page the index lies in huge pages and grows by whole ones.
TEST(RowIndexTest, ALargeIndexFindsWhatASmallOneHad) {
  constexpr uint32_t kRows = 700'000;
  RowIndex index;
  const auto hash_of = [](uint32_t row) { return Mix64(row); };
  size_t grown = 0;
  for (uint32_t row = 0; row < kRows; ++row) {
    if (index.full()) {
      const size_t expected = RowIndex::BytesFor(row + 1);
      index.Grow(hash_of, [](uint32_t) {});
      ASSERT_EQ(index.bytes(), expected);
      ++grown;
    }
    index.Insert(hash_of(row), row);
  }
  EXPECT_EQ(index.bytes() % kHugePage, 0u);
  EXPECT_LT(index.bytes(), size_t{kRows} * 10);
  EXPECT_GT(grown, 10u);
  for (uint32_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(index.Find(hash_of(row), [row](uint32_t other) { return other == row; }), row);
  }
  for (uint32_t row = 0; row < kRows; row += 2) index.Erase(hash_of(row), row);
  EXPECT_EQ(index.rows(), kRows / 2);
}

}  // namespace
}  // namespace cohort
