// Workers that join over NCCL (strategy.communication_options.implementation), on real threads, as
// NCCL's communicator has one of its own. GPUs are the stand-in's, and NCCL is the fake, which adds
// up in the order of the tree: so the expectation is the same job over frames, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/memory_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/local_socket.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/support/stepwise_training.h"
#include "tests/support/test_cluster.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kExamples = 99;  // batches of 32, 32, 32 and 3
constexpr int64_t kSteps = 6;
constexpr int kWorkers = 2;

// A job's workers and coordinator. Belongs to the thread of the test.
class ThreadedJob {
 public:
  explicit ThreadedJob(FindNccl find_nccl) : cluster_(TaskOptions(std::move(find_nccl))) {
    for (int worker = 0; worker < kWorkers; ++worker) cluster_.SetGpus({Role::kWorker, worker}, 2);
  }

  TestCluster& cluster() { return cluster_; }

  absl::StatusOr<StepwiseTraining*> Begin(const std::string& implementation) {
    const JobSpec job = PerceptronJob(
        {"strategy.type=multi_worker_mirrored", R"(strategy.devices=["gpu:0","gpu:1"])",
         absl::StrCat("strategy.communication_options.implementation=", implementation)});
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.cluster = cluster_.spec();
    options.recovery_directory = "/recovery";  // else the loss of a worker is an error
    options.attempts_max = options.quarantine_after = 1000;
    ASSIGN_OR_RETURN(coordinator_,
                     ClusterCoordinator::Connect(world_, waiter_, std::move(options)));
    training_.emplace(*coordinator_, job, kExamples);
    RETURN_IF_ERROR(training_->Begin());
    return &*training_;
  }

 private:
  TestCluster::Options TaskOptions(FindNccl find_nccl) {
    TestCluster::Options options;
    options.ps = {};
    options.workers.clear();
    for (int worker = 0; worker < kWorkers; ++worker) options.workers.push_back(worker);
    options.address_prefix = NewSocketNumber();
    options.world_of = [this](const std::string&) { return world_; };
    options.find_nccl = std::move(find_nccl);
    return options;
  }

  RealClock clock_;
  ThreadPool pool_{{"test", 4}};
  MemoryFileSystem files_;
  InProcessTransport transport_{clock_, pool_};
  const World world_{clock_, pool_, files_, transport_};
  BlockingWaiter waiter_;
  TestCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<StepwiseTraining> training_;
};

struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
};

absl::StatusOr<Trained> Train(const std::string& implementation, const FindNccl& find_nccl) {
  ThreadedJob job(find_nccl);
  ASSIGN_OR_RETURN(StepwiseTraining* const training, job.Begin(implementation));
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
    ThreadedJob job(Finding(fake));
    const auto training = job.Begin("nccl");
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
  const FindNccl none = [] {
    return absl::FailedPreconditionError("no NCCL here: install it");
  };
  const absl::Status found = Train("nccl", none).status();
  EXPECT_THAT(std::string(found.message()), HasSubstr("no NCCL here: install it"));
  EXPECT_THAT(std::string(found.message()), HasSubstr("rank 0"));
  const absl::Status null = Train("nccl", nullptr).status();
  EXPECT_THAT(std::string(null.message()), HasSubstr("this worker has no NCCL"));
}

}  // namespace
}  // namespace cohort
