// Real processes are killed while a job runs; the job ends as if nothing had been.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;

class KilledProcesses : public testing::Test {
 protected:
  // Children of a killed coordinator become this process's, and end with it.
  void SetUp() override { ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  void TearDown() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // Kills the task's present process; false while there is none.
  bool Kill(const std::string& task) {
    const auto text = ReadFile(files, JoinPath(state, absl::StrCat(task, ".process")));
    if (!text.ok()) return false;
    const json record = json::parse(*text, nullptr, /*allow_exceptions=*/false);
    return record.contains("pid") && kill(record["pid"], SIGKILL) == 0;
  }

  const TempDirectory temp{"recovery"};
  const std::string state = temp / "state";
  PosixFileSystem files;
};

// Ten processes of all three roles, at points drawn from a seed, while the sum counts on.
TEST_F(KilledProcesses, EveryIncrementCountsOnceWhateverIsKilled) {
  constexpr int kIncrements = 100000;
  constexpr int kKills = 10;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const std::vector<std::string> arguments = {COHORT_BIN_DIR, state, "2", "4",
                                              absl::StrCat(kIncrements)};
  const auto start = [&] {
    return std::make_unique<RunningProcess>(absl::StrCat(COHORT_BIN_DIR, "/counter_program"),
                                            arguments,
                                            std::map<std::string, std::string>{{"TF_CONFIG", ""}});
  };
  std::unique_ptr<RunningProcess> coordinator = start();
  for (int i = 1; i <= kKills; ++i) {
    const int at = i * (kIncrements / (kKills + 2)) / 1000 * 1000;
    ASSERT_TRUE(coordinator->ReadErrUntil(absl::StrCat("done ", at, "\n"), absl::Minutes(1)))
        << coordinator->err();
    const uint64_t role = i % 3;
    if (role == 0) {
      coordinator->Signal(SIGKILL);
      EXPECT_EQ(coordinator->Wait(absl::Minutes(1)).exit_code, 128 + SIGKILL);
      coordinator = start();
    } else {
      Kill(role == 1 ? absl::StrCat("ps-", rng() % 2) : absl::StrCat("worker-", rng() % 4));
    }
  }
  const ProcessRun run = coordinator->Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.LastLine(), absl::StrCat(kIncrements));
}

}  // namespace
}  // namespace cohort
