// Real processes are killed while a job runs; the job ends as if nothing had been.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
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

  // A directory of programs in which `ps` is started with an empty directory of its own in the
  // place of the recovery checkpoints.
  std::string ProgramsWithPrivateDisks() {
    const std::string programs = temp / "bin";
    const std::string script =
        absl::StrCat("#!/bin/sh\nexec unshare --mount sh -c 'mount -t tmpfs none \"$0\" && exec ",
                     COHORT_BIN_DIR, "/ps \"$@\"' ", state, "/recovery \"$@\"\n");
    EXPECT_TRUE(files.MakeDirectories(programs).ok());
    EXPECT_TRUE(files.MakeDirectories(JoinPath(state, "recovery")).ok());
    EXPECT_TRUE(WriteFileAtomically(files, JoinPath(programs, "ps"), script).ok());
    EXPECT_EQ(chmod(JoinPath(programs, "ps").c_str(), 0755), 0);
    EXPECT_EQ(symlink(COHORT_BIN_DIR "/worker", JoinPath(programs, "worker").c_str()), 0);
    return programs;
  }
  std::unique_ptr<RunningProcess> StartCounting(const std::string& programs, int increments,
                                                const std::string& transport) {
    return std::make_unique<RunningProcess>(
        absl::StrCat(COHORT_BIN_DIR, "/counter_program"),
        std::vector<std::string>{programs, state, "2", "4", absl::StrCat(increments), transport},
        std::map<std::string, std::string>{{"TF_CONFIG", ""}});
  }

  const TempDirectory temp{"recovery"};
  const std::string state = temp / "state";
  PosixFileSystem files;
};

class KilledOnEachTransport : public KilledProcesses,
                              public testing::WithParamInterface<std::string> {};

// Ten processes of all three roles, at points drawn from a seed, while the sum counts on.
TEST_P(KilledOnEachTransport, EveryIncrementCountsOnceWhateverIsKilled) {
#ifdef COHORT_SANITIZED
  constexpr int kIncrements = 30000;  // the same code, some times slower
#else
  constexpr int kIncrements = 100000;
#endif
  constexpr int kKills = 10;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto start = [&] { return StartCounting(COHORT_BIN_DIR, kIncrements, GetParam()); };
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
  EXPECT_THAT(run.err, testing::Not(testing::HasSubstr("mode=stream")));
}

INSTANTIATE_TEST_SUITE_P(All, KilledOnEachTransport,
                         testing::Values("auto", "tcp", "grpc", "unix", "shm"),
                         [](const auto& info) { return info.param; });

// Each ps has a mount of its own where the checkpoints are, and finds it empty after its kill.
TEST_F(KilledProcesses, AParameterServerThatComesBackWithoutFilesIsFilledByTheCoordinator) {
  constexpr int kIncrements = 48000;
  if (RunProcess("/usr/bin/unshare", {"--mount", "mount", "-t", "tmpfs", "none", temp / ""}, {},
                 absl::Minutes(1))
          .exit_code != 0) {
    GTEST_SKIP() << "needs root for a mount of its own";
  }
  const auto coordinator = StartCounting(ProgramsWithPrivateDisks(), kIncrements, "auto");
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(coordinator->ReadErrUntil(absl::StrCat("done ", i * kIncrements / 12, "\n"),
                                          absl::Minutes(1)))
        << coordinator->err();
    // So that there is something to go back to.
    ASSERT_TRUE(coordinator->ReadErrUntil("event=recovery_checkpoint ", absl::Minutes(1)));
    ASSERT_TRUE(Kill(absl::StrCat("ps-", i % 2)));
    ASSERT_TRUE(coordinator->ReadErrUntil("event=recovered ", absl::Minutes(1)))
        << coordinator->err();
  }
  const ProcessRun run = coordinator->Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.LastLine(), absl::StrCat(kIncrements));
  EXPECT_THAT(run.err, testing::ContainsRegex("event=checkpoint_mode .*mode=stream"));
  EXPECT_THAT(run.err, testing::ContainsRegex("event=recovered .*checkpoint=[^ ]*/recovery-"));
}

}  // namespace
}  // namespace cohort
