#include <algorithm>
#include <vector>

#include "coordinator/api/progress.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// Epochs of `steps` steps over 10 batches of 10 examples: how often each batch is read in each
// pass.
std::vector<std::vector<int>> Read(int epochs, int64_t steps) {
  const PassShape pass{10, 10};
  DataPosition begin;
  std::vector<std::vector<int>> passes;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t step = 0; step < steps; ++step) {
      const proto::IteratorPosition position = BatchAfter(begin, step, pass);
      passes.resize(std::max<size_t>(passes.size(), static_cast<size_t>(position.epoch()) + 1),
                    std::vector<int>(10, 0));
      ++passes[static_cast<size_t>(position.epoch())][static_cast<size_t>(position.element())];
    }
    const proto::IteratorPosition end = BatchAfter(begin, steps, pass);
    begin = {end.epoch(), end.element() * pass.batch_size};
  }
  return passes;
}

TEST(DataPosition, EachPassHasEachBatchOnceHoweverLongAnEpochIs) {
  for (const int64_t steps : {1, 3, 4, 10, 15, 20, 27}) {
    const auto passes = Read(static_cast<int>(60 / steps) + 1, steps);
    ASSERT_GE(passes.size(), 6u);
    for (size_t i = 0; i + 1 < passes.size(); ++i) {
      EXPECT_EQ(passes[i], std::vector<int>(10, 1)) << steps << " steps, pass " << i;
    }
  }
}

TEST(DataPosition, AnotherBatchSizeGoesOnAtTheSameExample) {
  const DataPosition begin{3, 60};
  const proto::IteratorPosition smaller = BatchAfter(begin, 1, {5, 20});
  EXPECT_EQ(smaller.epoch(), 3);
  EXPECT_EQ(smaller.element(), 13);
  const proto::IteratorPosition shorter = BatchAfter(begin, 0, {10, 4});
  EXPECT_EQ(shorter.epoch(), 4) << "this pass has 40 examples and is over";
  EXPECT_EQ(shorter.element(), 0);
}

}  // namespace
}  // namespace cohort
