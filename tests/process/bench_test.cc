// The measurements run: what breaks one is found here and not when a figure is wanted. They are as
// short as can be, and their figures say nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/run_process.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(3);

class Bench : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Bench, Runs) {
  const ProcessRun run = RunProcess(COHORT_BIN_DIR "/cohort_bench", GetParam(), {}, kLong);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(absl::StrCat("\"bench\":\"", GetParam()[0], "\"")));
}

TEST(BenchCommand, ExplainsWhichAlgorithmRunsAndWhy) {
  const ProcessRun run =
      RunProcess(COHORT_BIN_DIR "/cohort_bench",
                 {"collective", "--explain", "32MiB", "float32", "--ranks", "4"}, {}, kLong);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("4 ranks of this host: shared memory"));
  EXPECT_THAT(run.out,
              HasSubstr("4 ranks of as many hosts: all-reduce sum float32[8388608], 32 MiB, "
                        "4 ranks: ring, because above 16 MiB"));
  EXPECT_THAT(run.out,
              HasSubstr("4 ranks, 2 on each host: all-reduce sum float32[8388608], 32 MiB, "
                        "4 ranks: hierarchical, because several ranks share each host"));
  const ProcessRun half =
      RunProcess(COHORT_BIN_DIR "/cohort_bench", {"collective", "--explain", "32MiB"}, {}, kLong);
  EXPECT_EQ(half.exit_code, 1);
  EXPECT_THAT(half.err, HasSubstr("give a size and a type, such as --explain 16MiB float32"));
}

INSTANTIATE_TEST_SUITE_P(
    Short, Bench,
    testing::Values(std::vector<std::string>{"transport", "--repeats", "1", "--milliseconds", "1",
                                             "--calls", "20", "--smallest", "16384"},
                    std::vector<std::string>{"collective", "--repeats", "1", "--milliseconds", "1",
                                             "--sizes", "64KiB", "--ranks", "2"},
                    std::vector<std::string>{"overlap", "--repeats", "1", "--layers", "2",
                                             "--width", "64"},
                    std::vector<std::string>{"schedule", "--repeats", "1", "--closures", "200"}),
    [](const auto& test) { return test.param[0]; });

}  // namespace
}  // namespace cohort
