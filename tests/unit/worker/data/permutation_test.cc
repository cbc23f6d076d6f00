#include "worker/data/permutation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

RandomStream Stream(uint64_t seed) { return RandomStream(seed, "test"); }

TEST(Permutation, HasEachNumberOnceAndKnowsItsPlace) {
  for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{1000},
                           Permutation::kTableMax, Permutation::kTableMax + 1, uint64_t{1500000}}) {
    const Permutation permutation(n, Stream(n));
    std::vector<bool> seen(n);
    uint64_t distinct = 0;
    for (uint64_t place = 0; place < n; ++place) {
      const uint64_t number = permutation.At(place);
      ASSERT_LT(number, n);
      distinct += seen[number] ? 0 : 1;
      seen[number] = true;
      ASSERT_TRUE(place % 97 != 0 || permutation.PlaceOf(number) == place);
    }
    EXPECT_EQ(distinct, n);
  }
}

TEST(Permutation, OfVeryManyNumbersIsComputedOnDemand) {
  const uint64_t n = (uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, Stream(1));
  for (uint64_t place = 0; place < n; place += n / 1000) {
    const uint64_t number = permutation.At(place);
    ASSERT_LT(number, n);
    ASSERT_EQ(permutation.PlaceOf(number), place);
  }
}

// A change of these values changes the order of trainings that were begun before.
TEST(Permutation, IsAContract) {
  const Permutation few(10, Stream(1));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 10; ++i) numbers.push_back(few.At(i));
  EXPECT_EQ(numbers, (std::vector<uint64_t>{7, 2, 4, 1, 8, 3, 9, 5, 6, 0}));
  const Permutation many(Permutation::kTableMax + 1, Stream(1));
  EXPECT_EQ(many.At(0), 602711u);
  EXPECT_EQ(many.At(1), 192206u);
  EXPECT_EQ(many.At(1000000), 850350u);
}

// All orders of 5 are as frequent as chance has it: 120 orders, 48,000 seeds.
TEST(Permutation, OfFewNumbersIsAnyOfThem) {
  std::map<std::vector<uint64_t>, int> counts;
  constexpr int kSeeds = 48000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Permutation permutation(5, Stream(static_cast<uint64_t>(seed)));
    std::vector<uint64_t> order;
    for (uint64_t i = 0; i < 5; ++i) order.push_back(permutation.At(i));
    ++counts[order];
  }
  EXPECT_EQ(counts.size(), 120u);
  double chi = 0;
  for (const auto& [order, count] : counts) chi += std::pow(count - 400, 2) / 400;
  EXPECT_LT(chi, 119 + 5 * std::sqrt(2 * 119));
}

// Neighbours do not stay neighbours: where no structure is left, the difference of two places that
// follow each other repeats as rarely as chance has it.
TEST(Permutation, OfManyNumbersHasNoRepeatedSteps) {
  const uint64_t n = Permutation::kTableMax * 4;
  const Permutation permutation(n, Stream(2));
  std::map<int64_t, int> steps;
  int most = 0;
  for (uint64_t place = 0; place < 200000; ++place) {
    const auto step = static_cast<int64_t>(permutation.At(place + 1)) -
                      static_cast<int64_t>(permutation.At(place));
    most = std::max(most, ++steps[step]);
  }
  EXPECT_LE(most, 6);
}

std::vector<uint64_t> OrderOf(const BlockOrderOptions& options, uint64_t seed, uint64_t pass) {
  const BlockOrder order(options, seed, pass);
  BlockOrder::Cursor cursor;
  std::vector<uint64_t> records;
  for (uint64_t place = 0; place < options.records; ++place) {
    records.push_back(order.At(place, cursor));
  }
  return records;
}

TEST(BlockOrder, HasEachRecordOnceAndFewBlocksOpen) {
  for (const BlockOrderOptions& options : {BlockOrderOptions{1000, 10, 4},
                                           {1003, 10, 4},
                                           {1009, 10, 3},
                                           {5, 10, 4},
                                           {1, 1, 1},
                                           {99, 1, 7},
                                           {100, 7, 100}}) {
    for (uint64_t pass = 0; pass < 4; ++pass) {
      const std::vector<uint64_t> order = OrderOf(options, 1, pass);
      EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), options.records);
      EXPECT_LT(*std::max_element(order.begin(), order.end()), options.records);
      // Each window has no more blocks than it may.
      for (size_t begin = 0; begin + options.block * options.window < order.size(); begin += 50) {
        std::set<uint64_t> blocks;
        for (size_t i = begin; i < begin + options.block * options.window; ++i) {
          blocks.insert(order[i] / options.block);
        }
        EXPECT_LE(blocks.size(), 2 * options.window + 1);
      }
    }
  }
}

TEST(BlockOrder, PassesAndSeedsHaveOrdersOfTheirOwn) {
  const BlockOrderOptions options{1000, 10, 4};
  EXPECT_EQ(OrderOf(options, 1, 0), OrderOf(options, 1, 0));
  EXPECT_NE(OrderOf(options, 1, 0), OrderOf(options, 1, 1));
  // A seed plus a pass would give the same order as its neighbour.
  EXPECT_NE(OrderOf(options, 1, 1), OrderOf(options, 2, 0));
}

}  // namespace
}  // namespace cohort
