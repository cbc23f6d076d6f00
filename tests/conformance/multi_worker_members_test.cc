// Workers of multi_worker_mirrored that leave the job and come to it by order, alive, whatever the
// job is doing. The expectation is the loss curve of one_device: the others train on, and nothing
// is taken back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/members/membership_watch.h"
#include "coordinator/members/worker_changes.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/conformance/workers_that_are_lost.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 40;
constexpr int kWorkers = 3;
constexpr uint64_t kSeeds = 16;

// A name service that the test plays.
class ScriptedResolver final : public HostResolver {
 public:
  void Resolve(const std::string&, Done done) override { done(answer); }
  absl::StatusOr<std::vector<std::string>> answer = absl::UnavailableError("no name server");
};

class MultiWorkerMembers : public WorkersThatAreLost {
 protected:
  MultiWorkerMembers() : WorkersThatAreLost(kWorkers) {}

  // As `ctl remove-worker` and a membership file do it.
  void Remove(TaskId worker, std::optional<absl::Status>& ended) {
    coordinator_->parts().cluster->RemoveWorker(worker, Farewell::kShutDown,
                                                [&ended](absl::Status status) { ended = status; });
  }
  absl::Status RemoveNow(TaskId worker) {
    std::optional<absl::Status> ended;
    Remove(worker, ended);
    cluster_.sim().RunUntil([&] { return ended.has_value(); }, absl::Minutes(1));
    return ended.value_or(absl::DeadlineExceededError("it is still leaving"));
  }
  void ExpectLosses(int64_t steps) {
    const auto losses = training_->Losses();
    ASSERT_TRUE(losses.ok()) << losses.status();
    ExpectNear(*losses, OneDevice(steps).losses);
  }
};

TEST_P(MultiWorkerMembers, TheOthersTrainOnWhenOneIsRemoved) {
  Connect(CoordinatorOptionsOf(job_));
  Schedule(kSteps);
  const TaskId leaves = Worker(GetParam());
  std::optional<absl::Status> removed;
  After(Delay(30), [&] { Remove(leaves, removed); });
  ExpectLosses(kSteps);
  ASSERT_TRUE(removed.has_value());
  EXPECT_TRUE(removed->ok()) << *removed;
  EXPECT_EQ(InStep(), kWorkers - 1);
  ExpectSameCopies(leaves);
  EXPECT_EQ(coordinator_->stats().put_back, 0u) << "what it had in flight has ended there";
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

TEST_P(MultiWorkerMembers, OneThatWasRemovedIsTakenInAgainWithACopy) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  const TaskId leaves = Worker(GetParam());
  ASSERT_TRUE(RemoveNow(leaves).ok());
  for (int i = 0; i < 5; ++i) TrainUntilInStep(kWorkers - 1);
  cluster_.tasks().Kill(leaves);
  cluster_.tasks().Start(leaves);
  ASSERT_TRUE(coordinator_->parts()
                  .cluster->AddWorker(leaves, *cluster_.tasks().spec().Address(leaves))
                  .ok());
  TrainUntilInStep(kWorkers);
  for (int i = 0; i < 5; ++i) TrainUntilInStep(kWorkers);
  ExpectLosses(scheduled_);
  ExpectSameCopies();
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

// Under an index that the job did not have at first, also behind a loss of all.
TEST_P(MultiWorkerMembers, AnotherWorkerTakesThePlace) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(20);
  Connect(std::move(options));
  TrainUntilInStep(kWorkers);
  const TaskId leaves = Worker(GetParam());
  ASSERT_TRUE(RemoveNow(leaves).ok());
  TrainUntilInStep(kWorkers - 1);
  constexpr int kNew = 7;
  const std::string address = cluster_.tasks().AddWorker(kNew);
  ASSERT_TRUE(coordinator_->parts().cluster->AddWorker({Role::kWorker, kNew}, address).ok());
  if (GetParam() % 2 == 0) TrainUntilInStep(kWorkers);
  for (const Cluster::TaskStatus& member : coordinator_->parts().cluster->TaskStatuses()) {
    cluster_.tasks().Kill(member.task);
    cluster_.tasks().Start(member.task);
  }
  TrainUntilInStep(kWorkers);
  for (int i = 0; i < 5; ++i) TrainUntilInStep(kWorkers);
  ExpectLosses(scheduled_);
  ExpectSameCopies(leaves);
  const auto copy = training_->CopyOf(kNew);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(*copy, *training_->Values());
}

// A membership file, which a living worker is taken off and put on again.
TEST_P(MultiWorkerMembers, AListIsFollowed) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  const World world = cluster_.WorldOf("chief:0");
  const TaskId leaves = Worker(GetParam());
  const auto write_list = [&](bool all) {
    std::string list;
    for (uint64_t i = 0; i < kWorkers; ++i) {
      if (!all && Worker(i) == leaves) continue;
      absl::StrAppend(&list, *cluster_.tasks().spec().Address(Worker(i)), "\n");
    }
    ASSERT_TRUE(WriteFileAtomically(world.files, "/members", list).ok());
  };
  write_list(true);
  WorkerChanges::Options how;
  how.farewell = Farewell::kKeep;
  const auto changes = WorkerChanges::Create(world, coordinator_->parts().cluster, std::move(how));
  ScriptedResolver resolver;
  const auto watch =
      MembershipWatch::Create(world, MakeMembershipSource("/members", world.files, resolver),
                              coordinator_->parts().cluster, changes);
  watch->Start();
  cluster_.sim().RunFor(absl::Seconds(3));
  TrainUntilInStep(kWorkers);
  write_list(false);
  TrainUntilInStep(kWorkers - 1);
  write_list(true);
  TrainUntilInStep(kWorkers);
  watch->Stop();
  ExpectLosses(scheduled_);
  ExpectSameCopies();
}

class MultiWorkerNames : public MultiWorkerMembers {};

// A DNS name, as of a headless service: it forgets a worker that is well for a while, which changes
// nothing, and one that is gone, which then leaves the job and is no longer waited for.
TEST_P(MultiWorkerNames, ANameIsFollowed) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  const World world = cluster_.WorldOf("chief:0");
  const TaskId leaves = Worker(GetParam());
  ScriptedResolver resolver;
  const auto name_all = [&](bool with_it) {
    std::vector<std::string> hosts;
    for (uint64_t i = 0; i < kWorkers; ++i) {
      if (!with_it && Worker(i) == leaves) continue;
      hosts.push_back(absl::StrCat("worker", Worker(i).index));
    }
    resolver.answer = hosts;
  };
  const auto is_member = [&] {
    const auto members = coordinator_->parts().cluster->TaskStatuses();
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& one) { return one.task == leaves && !one.leaving; });
  };
  name_all(true);
  WorkerChanges::Options how;
  how.farewell = Farewell::kKeep;
  const auto changes = WorkerChanges::Create(world, coordinator_->parts().cluster, std::move(how));
  const auto watch = MembershipWatch::Create(
      world, MakeMembershipSource("dns:workers:2222", world.files, resolver),
      coordinator_->parts().cluster, changes);
  watch->Start();
  cluster_.sim().RunFor(absl::Seconds(20));
  name_all(false);
  cluster_.sim().RunFor(absl::Seconds(40));
  EXPECT_TRUE(is_member());
  TrainUntilInStep(kWorkers);
  cluster_.tasks().Kill(leaves);
  TrainUntilInStep(kWorkers - 1);
  cluster_.sim().RunFor(absl::Seconds(40));
  EXPECT_FALSE(is_member());
  TrainUntilInStep(kWorkers - 1);
  cluster_.tasks().Start(leaves);
  name_all(true);
  TrainUntilInStep(kWorkers);
  watch->Stop();
  ExpectLosses(scheduled_);
  ExpectSameCopies();
  EXPECT_EQ(coordinator_->stats().recoveries, 0u);
}

// Nobody else has the variables: to let it go would lose them.
TEST_P(MultiWorkerMembers, TheLastOneWithTheVariablesIsNotRemoved) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  const TaskId last = Worker(GetParam());
  for (uint64_t i = 1; i < kWorkers; ++i) cluster_.tasks().Kill(Worker(GetParam() + i));
  TrainUntilInStep(1);
  const absl::Status refused = RemoveNow(last);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no other worker has the variables"));
  cluster_.tasks().Start(Worker(GetParam() + 1));
  TrainUntilInStep(2);
  EXPECT_TRUE(RemoveNow(last).ok());
  TrainUntilInStep(1);
  ExpectLosses(scheduled_);
}

// All were lost, one of them for good: the recovery waits for it until it is removed.
TEST_P(MultiWorkerMembers, ARecoveryDoesNotWaitForOneThatIsRemoved) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(5);
  Connect(std::move(options));
  TrainUntilInStep(kWorkers);
  for (uint64_t i = 0; i < kWorkers; ++i) cluster_.tasks().Kill(Worker(GetParam() + i));
  cluster_.sim().RunFor(absl::Seconds(1) + Delay(2000));
  for (uint64_t i = 1; i < kWorkers; ++i) cluster_.tasks().Start(Worker(GetParam() + i));
  if (GetParam() % 2 == 0) cluster_.sim().RunFor(Delay(3000));
  EXPECT_TRUE(RemoveNow(Worker(GetParam())).ok());
  TrainUntilInStep(kWorkers - 1);
  ExpectLosses(scheduled_);
  ExpectSameCopies(Worker(GetParam()));
}

// At any moment of a recovery, of a copy and of a checkpoint.
TEST_P(MultiWorkerMembers, OneMayBeRemovedWhateverGoesOn) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(5);
  Connect(std::move(options));
  TrainUntilInStep(kWorkers);
  const TaskId away = Worker(GetParam());
  const TaskId leaves = Worker(GetParam() + 1);
  cluster_.tasks().Kill(away);
  cluster_.tasks().Start(away);
  std::optional<absl::Status> removed;
  After(Delay(1500), [&] { Remove(leaves, removed); });
  Schedule(kSteps);
  scheduled_ += kSteps;
  ASSERT_TRUE(training_->Losses().ok());
  cluster_.sim().RunUntil([&] { return removed.has_value(); }, absl::Minutes(1));
  ASSERT_TRUE(removed.has_value());
  TrainUntilInStep(removed->ok() ? kWorkers - 1 : kWorkers);
  ExpectLosses(scheduled_);
  if (removed->ok()) ExpectSameCopies(leaves);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MultiWorkerNames, testing::Range(uint64_t{1}, uint64_t{4}));
INSTANTIATE_TEST_SUITE_P(Seeds, MultiWorkerMembers, testing::Range(uint64_t{1}, kSeeds + 1));

}  // namespace
}  // namespace cohort
