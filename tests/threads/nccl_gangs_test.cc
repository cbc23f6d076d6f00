// Workers that join over NCCL (strategy.communication_options.implementation), on real threads, as
// NCCL's communicator has one of its own. GPUs are the stand-in's, and NCCL is the fake, which adds
// up in the order of the tree: so the expectation is the same job over frames, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/threads/threaded_job.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSteps = 6;
constexpr int kWorkers = ThreadedJob::kWorkers;

// On two GPUs of the stand-in each.
constexpr int kGpus = 2;

std::vector<std::string> Over(const std::string& implementation) {
  return {R"(strategy.devices=["gpu:0","gpu:1"])",
          absl::StrCat("strategy.communication_options.implementation=", implementation)};
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
};

absl::StatusOr<Trained> Train(const std::string& implementation, const FindNccl& find_nccl) {
  ThreadedJob job(find_nccl, kGpus);
  ASSIGN_OR_RETURN(StepwiseTraining* const training, job.Begin(Over(implementation)));
  Trained trained;
  ASSIGN_OR_RETURN(trained.losses, training->Run(kSteps));
  ASSIGN_OR_RETURN(trained.values, training->Values());
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    ASSIGN_OR_RETURN(const auto copy, training->CopyOf(worker));
    EXPECT_EQ(copy, trained.values) << "copies are the same bits";
  }
  return trained;
}

FindNccl Finding(const FakeNccl& fake) {
  return [&fake] { return &fake.table(); };
}

TEST(NcclGangs, WorkersAddUpOverNcclWhatTheyAddUpOverFrames) {
  FakeNccl fake(1);
  const auto over_nccl = Train("nccl", Finding(fake));
  const auto over_frames = Train("auto", Finding(fake));
  ASSERT_TRUE(over_nccl.ok()) << over_nccl.status();
  ASSERT_TRUE(over_frames.ok()) << over_frames.status();
  EXPECT_EQ(over_nccl->losses, over_frames->losses);
  EXPECT_EQ(over_nccl->values, over_frames->values);
  EXPECT_EQ(fake.counters().joined, kWorkers) << "once, for all steps, and of one job alone";
  EXPECT_GE(fake.counters().groups, kWorkers * kSteps);
  EXPECT_EQ(fake.counters().contexts, 0) << "what was opened was closed";
  EXPECT_THAT(fake.misuse(), IsEmpty());
}

TEST(NcclGangs, AWorkerThatIsReplacedJoinsAnew) {
  FakeNccl fake(1);
  {
    ThreadedJob job(Finding(fake), kGpus);
    const auto training = job.Begin(Over("nccl"));
    ASSERT_TRUE(training.ok()) << training.status();
    ASSERT_TRUE((*training)->Run(2).ok());
    const TaskId victim{Role::kWorker, 1};
    job.cluster().Kill(victim);
    job.cluster().Start(victim);
    // Until it is there the other one trains alone, without NCCL.
    while (fake.counters().joined < 2 * kWorkers) {
      const absl::Status step = (*training)->Run(1).status();
      ASSERT_TRUE(step.ok()) << step;
    }
    const auto copy = (*training)->CopyOf(1);
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(*copy, *(*training)->Values());
  }
  EXPECT_EQ(fake.counters().contexts, 0);
  EXPECT_THAT(fake.misuse(), IsEmpty());
}

// Not steps that are tried again and again.
TEST(NcclGangs, AJobWithoutNcclEndsWithWhy) {
  const FindNccl none = [] { return absl::FailedPreconditionError("no NCCL here: install it"); };
  const absl::Status found = Train("nccl", none).status();
  EXPECT_THAT(std::string(found.message()), HasSubstr("no NCCL here: install it"));
  EXPECT_THAT(std::string(found.message()), HasSubstr("rank 0"));
  const absl::Status null = Train("nccl", nullptr).status();
  EXPECT_THAT(std::string(null.message()), HasSubstr("this worker has no NCCL"));
}

}  // namespace
}  // namespace cohort
