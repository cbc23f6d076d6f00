// The exit code and the error of a job whose local tasks cannot be started.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/temporary_file.h"
#include "common/wire/route/real_world.h"
#include "coordinator/daemon/coordinator_daemon.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class LocalTasksOfAJob : public testing::Test {
 protected:
  CoordinatorDaemon::Result Run() {
    CoordinatorOptions options;
    options.job = *ParseJob(R"({
      "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"units": 10, "input_shape": [784]}}]}},
      "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
      "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 64}}}})",
                            "job.json", {});
    options.local = LocalTasks{1, 1};
    options.state_directory = directory_ / "state";
    CoordinatorDaemon::Environment environment;
    environment.binary_directory = directory_.path();
    RealWorld world(1);
    BlockingWaiter waiter;
    return CoordinatorDaemon(world.world(), waiter, std::move(options), environment).Run();
  }

  const TempDirectory directory_{"local-tasks"};
};

TEST_F(LocalTasksOfAJob, ProgramsThatAreNotThereAreForTheUserToMend) {
  const CoordinatorDaemon::Result result = Run();
  EXPECT_EQ(result.code, kExitBadConfig);
  EXPECT_THAT(result.error, HasSubstr("no program cohort-ps or ps in " + directory_.path()));
}

TEST_F(LocalTasksOfAJob, AChildThatNeverServesIsNamedWithItsLastWords) {
  for (const char* name : {"ps", "worker"}) {
    PosixFileSystem files;
    ASSERT_TRUE(
        WriteFileAtomically(files, directory_ / name, "#!/bin/sh\necho no luck\nexit 3\n").ok());
    ASSERT_EQ(chmod((directory_ / name).c_str(), 0755), 0);
  }
  const CoordinatorDaemon::Result result = Run();
  EXPECT_EQ(result.code, kExitLostCluster);
  EXPECT_THAT(result.error, HasSubstr("exit code 3; its last words: no luck; its log is "));
  EXPECT_THAT(result.error, HasSubstr("start the same command again"));
}

}  // namespace
}  // namespace cohort
