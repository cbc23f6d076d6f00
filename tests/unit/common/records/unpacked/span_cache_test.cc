#include "common/records/unpacked/span_cache.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::Each;

// Makes spans of 100 bytes, and counts them.
class Maker {
 public:
  absl::StatusOr<std::vector<char>> operator()(size_t number) {
    ++made;
    if (fails) return absl::DataLossError("damaged");
    return std::vector<char>(100, static_cast<char>(number));
  }
  std::atomic<int> made{0};
  bool fails = false;
};

TEST(SpanCache, KeepsTheSpansThatWereUsedLast) {
  SpanCache cache(300);
  Maker maker;
  const uint64_t file = cache.AddFile();
  const auto get = [&](size_t number) {
    const auto span = cache.Get(file, number, [&] { return maker(number); });
    EXPECT_TRUE(span.ok());
    EXPECT_THAT(**span, Each(static_cast<char>(number)));
  };
  for (const size_t number : {1, 2, 3, 1, 2, 3}) get(number);
  EXPECT_EQ(maker.made, 3);
  EXPECT_EQ(cache.bytes(), 300u);
  get(1);
  get(4);  // drops 2, which was used before all others
  EXPECT_EQ(cache.bytes(), 300u);
  get(3);
  get(1);
  EXPECT_EQ(maker.made, 4);
  get(2);
  EXPECT_EQ(maker.made, 5);
}

TEST(SpanCache, FilesHaveSpansOfTheirOwn) {
  SpanCache cache(1000);
  Maker maker;
  const uint64_t one = cache.AddFile();
  const uint64_t two = cache.AddFile();
  for (const uint64_t file : {one, two}) {
    for (const size_t number : {1, 2}) {
      EXPECT_TRUE(cache.Get(file, number, [&] { return maker(number); }).ok());
    }
  }
  EXPECT_EQ(maker.made, 4);
  cache.RemoveFile(one);
  EXPECT_EQ(cache.bytes(), 200u);
  EXPECT_TRUE(cache.Get(two, 1, [&] { return maker(1); }).ok());
  EXPECT_EQ(maker.made, 4);
}

TEST(SpanCache, AnErrorIsNotKept) {
  SpanCache cache(1000);
  Maker maker;
  maker.fails = true;
  EXPECT_FALSE(cache.Get(1, 1, [&] { return maker(1); }).ok());
  maker.fails = false;
  EXPECT_TRUE(cache.Get(1, 1, [&] { return maker(1); }).ok());
  EXPECT_EQ(cache.bytes(), 100u);
}

// A span above the bound is given out and not kept.
TEST(SpanCache, ASpanAboveTheBoundIsTheReadersOwn) {
  SpanCache cache(50);
  Maker maker;
  EXPECT_EQ((*cache.Get(1, 1, [&] { return maker(1); }))->size(), 100u);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(SpanCache, ASpanIsMadeOnceForThreadsThatAskTogether) {
  SpanCache cache(100000);
  Maker maker;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (size_t number = 0; number < 50; ++number) {
        const auto span = cache.Get(1, number, [&] {
          std::this_thread::yield();
          return maker(number);
        });
        EXPECT_TRUE(span.ok() && (**span)[0] == static_cast<char>(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(maker.made, 50);
}

}  // namespace
}  // namespace cohort
