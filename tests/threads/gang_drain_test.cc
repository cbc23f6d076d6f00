// Workers that are told to stop between steps: others watch each of them for as long as it is in
// their group, with calls that must not keep it.

#include <gtest/gtest.h>

#include "tests/threads/threaded_job.h"

namespace cohort {
namespace {

// Longer than a test may take: it ends in time where nothing is waited for.
constexpr absl::Duration kGrace = absl::Hours(1);

TEST(GangDrain, WorkersThatStopDoNotWaitForEachOther) {
  ThreadedJob job;
  const auto training = job.Begin({});
  ASSERT_TRUE(training.ok()) << training.status();
  const absl::Status trained = (*training)->Run(3).status();
  ASSERT_TRUE(trained.ok()) << trained;
  job.EndCoordinator();
  for (int worker = 0; worker < ThreadedJob::kWorkers; ++worker) {
    job.cluster().Drain({Role::kWorker, worker}, kGrace);
  }
}

}  // namespace
}  // namespace cohort
