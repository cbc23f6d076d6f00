#include "worker/data/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace cohort {
namespace {

constexpr int kPixels = kDigitSide * kDigitSide;

TEST(SyntheticDigits, DependOnSeedAndIndexAlone) {
  const DigitSet small = *MakeSyntheticDigits({7, 50});
  const DigitSet large = *MakeSyntheticDigits({7, 200});
  const DigitSet other = *MakeSyntheticDigits({8, 50});
  EXPECT_EQ(small.images.TypeString(), "uint8[50,28,28]");
  EXPECT_EQ(small.labels.TypeString(), "uint8[50]");
  EXPECT_EQ(std::memcmp(small.images.raw(), large.images.raw(), small.images.num_bytes()), 0);
  EXPECT_EQ(std::memcmp(small.labels.raw(), large.labels.raw(), small.labels.num_bytes()), 0);
  EXPECT_NE(std::memcmp(small.images.raw(), other.images.raw(), small.images.num_bytes()), 0);
}

TEST(SyntheticDigits, LabelsAreEvenAndImagesLookLikeInk) {
  const DigitSet set = *MakeSyntheticDigits({1, 4000});
  std::array<int, 10> counts{};
  for (const uint8_t label : set.labels.span<uint8_t>()) counts.at(label)++;
  for (const int count : counts) {
    EXPECT_GT(count, 320);  // 400 expected, standard deviation 19
    EXPECT_LT(count, 480);
  }
  double sum = 0;
  for (const uint8_t pixel : set.images.span<uint8_t>()) sum += pixel;
  EXPECT_GT(sum / (4000.0 * kPixels), 15);  // MNIST: 33
  EXPECT_LT(sum / (4000.0 * kPixels), 60);
}

TEST(SyntheticDigits, RefusesAbsurdCounts) {
  EXPECT_EQ(MakeSyntheticDigits({1, -1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeSyntheticDigits({1, kSyntheticDigitsMax + 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(MakeSyntheticDigits({1, 0}).ok());
}

int64_t Distance(const uint8_t* a, const uint8_t* b) {
  int64_t sum = 0;
  for (int i = 0; i < kPixels; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// A nearest-neighbour rule with 3,000 examples knows unseen digits: the set can be learned, and it
// is not so plain that pixels repeat.
TEST(SyntheticDigits, CanBeLearned) {
  const DigitSet train = *MakeSyntheticDigits({1, 3000});
  const DigitSet test = *MakeSyntheticDigits({2, 300});
  int right = 0;
  int64_t nearest_of_all = std::numeric_limits<int64_t>::max();
  for (int t = 0; t < 300; ++t) {
    int64_t best = std::numeric_limits<int64_t>::max();
    int label = -1;
    for (int i = 0; i < 3000; ++i) {
      const int64_t distance = Distance(test.images.data<uint8_t>() + t * kPixels,
                                        train.images.data<uint8_t>() + i * kPixels);
      if (distance < best) {
        best = distance;
        label = train.labels.data<uint8_t>()[i];
      }
    }
    right += label == test.labels.data<uint8_t>()[t];
    nearest_of_all = std::min(nearest_of_all, best);
  }
  EXPECT_GE(right, 285);
  EXPECT_GT(nearest_of_all, 0);
}

}  // namespace
}  // namespace cohort
