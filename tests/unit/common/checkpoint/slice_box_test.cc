#include "common/checkpoint/slice_box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

TEST(CheckBoxesTile, Layouts) {
  EXPECT_TRUE(CheckBoxesTile({4, 6}, {{{0, 0}, {4, 6}}}).ok());
  EXPECT_TRUE(CheckBoxesTile({4, 6}, {{{0, 3}, {4, 3}}, {{0, 0}, {4, 3}}}).ok());
  // A pinwheel: no line cuts it in two.
  EXPECT_TRUE(CheckBoxesTile({3, 3}, {{{0, 0}, {1, 2}},
                                      {{0, 2}, {2, 1}},
                                      {{2, 1}, {1, 2}},
                                      {{1, 0}, {2, 1}},
                                      {{1, 1}, {1, 1}}})
                  .ok());
  EXPECT_TRUE(CheckBoxesTile({}, {{{}, {}}}).ok());
}

TEST(CheckBoxesTile, Refusals) {
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {}).ok());
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {{{0, 0}, {4, 5}}}).ok());
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {{{0, 0}, {4, 7}}}).ok());
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {{{0}, {4}}}).ok());
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {{{0, 0}, {4, 6}}, {{1, 1}, {1, 1}}}).ok());
  EXPECT_FALSE(CheckBoxesTile({4, 6}, {{{0, 0}, {4, 6}}, {{4, 0}, {0, 6}}}).ok());
  // The volumes add up, but an overlap hides a gap.
  EXPECT_FALSE(CheckBoxesTile({4}, {{{0}, {2}}, {{1}, {2}}}).ok());
  EXPECT_FALSE(CheckBoxesTile({}, {{{}, {}}, {{}, {}}}).ok());
}

// Against the plain definition: each element of the box, one by one.
TEST(SliceCopier, MatchesTheDefinition) {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<unsigned>(n));
    };
    const size_t rank = 1 + static_cast<size_t>(below(4));
    std::vector<int64_t> dims, starts, lengths;
    for (size_t axis = 0; axis < rank; ++axis) {
      dims.push_back(1 + below(5));
      starts.push_back(below(2) ? 0 : below(dims[axis]));
      lengths.push_back(below(2) ? dims[axis] - starts[axis]
                                 : 1 + below(dims[axis] - starts[axis]));
    }
    const int64_t begin = below(dims[0]);
    const RowRange rows{begin, below(dims[0] - begin + 1)};
    const int64_t row =
        std::accumulate(dims.begin() + 1, dims.end(), int64_t{1}, std::multiplies<>());
    const int64_t volume =
        std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
    constexpr int64_t kElement = 2;

    std::string expected(static_cast<size_t>(rows.count * row * kElement), '.');
    std::string stored;
    for (int64_t i = 0; i < volume; ++i) {
      int64_t rest = i, offset = 0, stride = 1;
      for (size_t axis = rank; axis-- > 0;) {
        offset += (starts[axis] + rest % lengths[axis]) * stride;
        stride *= dims[axis];
        rest /= lengths[axis];
      }
      const std::string element = {static_cast<char>('a' + i % 26),
                                   static_cast<char>('A' + i % 25)};
      stored += element;
      offset -= rows.begin * row;
      if (offset >= 0 && offset < rows.count * row) {
        expected.replace(static_cast<size_t>(offset * kElement), kElement, element);
      }
    }
    std::string out(expected.size(), '.');
    const SliceCopier copier({starts, lengths}, dims, kElement, rows);
    const size_t piece = 1 + static_cast<size_t>(below(9));  // cuts elements too
    for (size_t at = 0; at < stored.size(); at += piece) {
      copier.Copy(static_cast<int64_t>(at),
                  {stored.data() + at, std::min(piece, stored.size() - at)}, out.data());
    }
    ASSERT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace cohort
