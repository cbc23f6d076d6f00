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

INSTANTIATE_TEST_SUITE_P(
    Short, Bench,
    testing::Values(std::vector<std::string>{"transport", "--repeats", "1", "--milliseconds", "1",
                                             "--calls", "20", "--smallest", "16384"},
                    std::vector<std::string>{"collective", "--repeats", "1", "--milliseconds", "1",
                                             "--sizes", "64KiB", "--ranks", "2"},
                    std::vector<std::string>{"overlap", "--repeats", "1", "--layers", "2",
                                             "--width", "64"},
                    std::vector<std::string>{"schedule", "--repeats", "1", "--closures", "200"},
                    std::vector<std::string>{"compute", "--model", "lstm,resnet20,transformer",
                                             "--threads", "1", "--repeats", "1", "--batch", "2"}),
    [](const auto& test) { return test.param[0]; });

}  // namespace
}  // namespace cohort
