// Strategies without a list of devices take all that the workers have, as in TensorFlow: all GPUs,
// else the processor. The expectation is the same job with the list. GPUs are the stand-in's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/strategy/make_strategy.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Trained Train(const std::string& type, std::vector<std::string> others, const RunSetup& setup) {
  others.push_back(absl::StrCat("strategy.type=", type));
  return TrainJob(PerceptronJob(others), setup);
}

TEST(AllDevices, OfAWorkerWithGpusAreItsGpus) {
  const RunSetup two = {.gpus = 2};
  const std::string list = R"(=["gpu:0","gpu:1"])";
  const Trained named = Train("mirrored", {"strategy.devices" + list}, two);
  const Trained all = Train("mirrored", {}, two);
  EXPECT_EQ(all.losses, named.losses) << "bit for bit";
  EXPECT_EQ(all.values, named.values);
  EXPECT_EQ(Train("central_storage", {}, two).values, named.values);
  EXPECT_NE(Train("mirrored", {}, {.gpus = 1}).values, named.values) << "another number sums so";
}

TEST(AllDevices, OfAWorkerWithoutGpusAreItsProcessor) {
  const Trained named = Train("mirrored", {R"(strategy.devices=["cpu:0"])"}, {});
  for (const char* const type : {"mirrored", "central_storage", "multi_worker_mirrored"}) {
    const Trained all = Train(type, {}, {});
    EXPECT_EQ(all.losses, named.losses) << type;
    EXPECT_EQ(all.values, named.values) << type;
  }
}

TEST(AllDevices, OfSeveralWorkersAreThoseOfEach) {
  const RunSetup two_by_two = {.workers = 2, .gpus = 2};
  const Trained named =
      Train("multi_worker_mirrored", {R"(strategy.devices=["gpu:0","gpu:1"])"}, two_by_two);
  EXPECT_EQ(Train("multi_worker_mirrored", {}, two_by_two).values, named.values);
}

TEST(AllDevices, TheUserIsToldWhyThereIsNoGpuAndWhyNoNccl) {
  const std::vector<std::string> nccl = {"strategy.type=mirrored",
                                         "strategy.cross_device_ops=nccl"};
  SimCluster cluster(1, 0, 1);
  testing::internal::CaptureStderr();
  const absl::StatusOr<TrainSummary> without = RunWholeJob(cluster, nccl);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=no_gpu workers=0 cause=\"no GPU can be used: this test's"));
  EXPECT_THAT(std::string(without.status().message()),
              HasSubstr("'nccl', which joins GPUs, and replica 0 is on cpu:0"));
  cluster.tasks().SetGpus({Role::kWorker, 0}, 2);
  testing::internal::CaptureStderr();
  const absl::StatusOr<TrainSummary> with = RunWholeJob(cluster, nccl);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(Not(HasSubstr("event=plan")), Not(HasSubstr("event=no_gpu"))));
  EXPECT_THAT(std::string(with.status().message()), HasSubstr("this worker has no NCCL"));
}

// What a plan is made for.
absl::StatusOr<ClusterShape> AskedShape(SimCluster& cluster, const JobSpec& job,
                                        ClusterCoordinator::Options options) {
  const auto strategy = MakeStrategy(job.strategy);
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  const auto coordinator = cluster.Connect(std::move(options));
  if (!coordinator.ok()) return coordinator.status();
  return (*coordinator)->ShapeFor(**strategy);
}

TEST(AllDevices, WorkersThatDifferAreNamedWithTheRemedy) {
  SimCluster cluster(1, 0, 3);
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  cluster.tasks().SetGpus({Role::kWorker, 0}, 2);
  cluster.tasks().SetGpus({Role::kWorker, 1}, 2);
  const auto shape = AskedShape(cluster, job, CoordinatorOptionsOf(job));
  EXPECT_TRUE(absl::IsInvalidArgument(shape.status())) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()),
              AllOf(HasSubstr("worker:0 has gpu:0, gpu:1"),
                    HasSubstr("worker:2 has cpu:0 (no GPU can be used"), Not(HasSubstr("worker:1")),
                    HasSubstr("strategy.devices")));
  const JobSpec named =
      PerceptronJob({"strategy.type=multi_worker_mirrored", R"(strategy.devices=["cpu:0"])"});
  const auto unasked = AskedShape(cluster, named, CoordinatorOptionsOf(named));
  ASSERT_TRUE(unasked.ok()) << unasked.status();
  EXPECT_TRUE(unasked->devices.empty());
  EXPECT_THAT(unasked->workers, ElementsAre(0, 1, 2));
}

// The process ends when it is asked, so often, and comes back a second later, or never.
class EndsWhenAsked final : public SimWatcher {
 public:
  enum class Then { kComesBack, kStaysAway };
  EndsWhenAsked(SimCluster& cluster, int times, Then then = Then::kComesBack)
      : cluster_(cluster), left_(times), then_(then) {
    cluster_.network().SetWatcher(this);
  }
  ~EndsWhenAsked() override { cluster_.network().SetWatcher(nullptr); }

  SimFate OnRequest(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "/ListDevices")) return {};
    ++asked_[message.to];
    if (message.to != "worker:1" || left_ == 0) return {};
    --left_;
    cluster_.sim().CallAt(cluster_.sim().Now(), [this] { cluster_.tasks().Kill(kTask); });
    if (then_ == Then::kComesBack) {
      cluster_.sim().CallAt(cluster_.sim().Now() + absl::Seconds(1),
                            [this] { cluster_.tasks().Start(kTask); });
    }
    SimFate lost;
    lost.lose = true;
    return lost;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

  int asked(const std::string& host) { return asked_[host]; }

 private:
  static constexpr TaskId kTask{Role::kWorker, 1};

  SimCluster& cluster_;
  int left_;
  const Then then_;
  std::map<std::string, int> asked_;
};

TEST(AllDevices, AWorkerThatIsLostIsAskedAgainWhenItIsBack) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SimCluster cluster(seed, 0, 2);
    for (int i = 0; i < 2; ++i) cluster.tasks().SetGpus({Role::kWorker, i}, 2);
    EndsWhenAsked ends(cluster, 2);
    const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
    const auto coordinator = cluster.Connect(CoordinatorOptionsOf(job));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    StepwiseTraining training(**coordinator, job, 99);
    const absl::Status begun = training.Begin();
    ASSERT_TRUE(begun.ok()) << "seed " << seed << ": " << begun;
    EXPECT_THAT(training.plan().train_step.replicas().devices(), ElementsAre("gpu:0", "gpu:1"));
    EXPECT_GE(ends.asked("worker:1"), 3) << "it was lost twice";
    EXPECT_EQ(ends.asked("worker:0"), 1) << "its answer is kept";
    const auto losses = training.Run(4);
    ASSERT_TRUE(losses.ok()) << "seed " << seed << ": " << losses.status();
  }
}

// The process ends when it is asked for its devices, and another one is removed, and neither comes
// back: those that are left begin.
TEST(AllDevices, TheOthersBeginWithoutOneThatIsLostAndOneThatIsRemoved) {
  SimCluster cluster(1, 0, 4);
  EndsWhenAsked ends(cluster, 1, EndsWhenAsked::Then::kStaysAway);
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  const auto coordinator = cluster.Connect(CoordinatorOptionsOf(job));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  cluster.tasks().Kill({Role::kWorker, 3});
  bool removed = false;
  cluster.sim().CallAt(cluster.sim().Now() + absl::Seconds(1), [&] {
    (*coordinator)
        ->parts()
        .cluster->RemoveWorker({Role::kWorker, 3}, Farewell::kShutDown,
                               [&](const absl::Status& status) { removed = status.ok(); });
  });
  StepwiseTraining training(**coordinator, job, 99);
  const absl::Status begun = training.Begin();
  ASSERT_TRUE(begun.ok()) << begun;
  EXPECT_TRUE(removed);
  const auto losses = training.Run(4);
  EXPECT_TRUE(losses.ok()) << losses.status();
}

// It was there when the cluster was ready, and ends before anybody asks for its devices: known or
// not, it is waited for no longer than its lease, and taken in when it is back.
TEST(AllDevices, OneThatIsLostBeforeItIsAskedIsNotWaitedForBeyondItsLease) {
  for (const absl::Duration known : {absl::ZeroDuration(), absl::Minutes(1)}) {
    SimCluster cluster(1, 0, 3);
    const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
    const ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    const auto coordinator = cluster.Connect(options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    const TaskId lost{Role::kWorker, 1};
    cluster.tasks().Kill(lost);
    cluster.sim().RunFor(known);
    StepwiseTraining training(**coordinator, job, 99);
    const absl::Time start = cluster.sim().Now();
    const absl::Status begun = training.Begin();
    ASSERT_TRUE(begun.ok()) << begun;
    EXPECT_LE(cluster.sim().Now() - start, 2 * options.lease + absl::Seconds(2))
        << "a lease until it is lost, and one until it is left out";
    ASSERT_TRUE(training.Run(4).ok());
    cluster.tasks().Start(lost);
    cluster.sim().RunFor(absl::Seconds(10));
    ASSERT_TRUE(training.Run(4).ok());
    const auto copy = training.CopyOf(1);
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(*copy, *training.CopyOf(0));
  }
}

// As many as the job needs at least are waited for, and who is away is named.
TEST(AllDevices, AWorkerThatTheJobNeedsIsWaitedForAndNamed) {
  SimCluster cluster(1, 0, 2);
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.connect_timeout = absl::Seconds(20);
  options.workers.min = 2;
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  cluster.tasks().Kill({Role::kWorker, 1});
  cluster.sim().RunFor(absl::Minutes(1));  // it is known
  const auto shape = (*coordinator)->ShapeFor(**MakeStrategy(job.strategy));
  EXPECT_TRUE(absl::IsDeadlineExceeded(shape.status())) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()), HasSubstr("worker:1"));
}

// Whatever the least number of workers: a cluster is whole when it begins.
TEST(AllDevices, AWorkerThatIsNotThereAtTheStartIsNamed) {
  SimCluster cluster(1, 0, 2);
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.connect_timeout = absl::Seconds(20);
  cluster.tasks().Kill({Role::kWorker, 1});
  const auto coordinator = cluster.Connect(std::move(options));
  EXPECT_TRUE(absl::IsDeadlineExceeded(coordinator.status())) << coordinator.status();
  EXPECT_THAT(std::string(coordinator.status().message()), HasSubstr("worker:1"));
}

// An interruption does not wait for whoever is away.
TEST(AllDevices, AnAbortEndsTheWaitForAWorkerThatIsAway) {
  SimCluster cluster(1, 0, 2);
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.workers.min = 2;
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  cluster.tasks().Kill({Role::kWorker, 1});
  const absl::Time start = cluster.sim().Now();
  cluster.sim().CallAt(start + absl::Seconds(8),
                       [&] { (*coordinator)->Abort(absl::CancelledError("interrupted")); });
  const auto shape = (*coordinator)->ShapeFor(**MakeStrategy(job.strategy));
  EXPECT_TRUE(absl::IsCancelled(shape.status())) << shape.status();
  EXPECT_LE(cluster.sim().Now() - start, absl::Seconds(9));
}

// A job's recovery checkpoints are gone on with by one that has the same devices.
class LeftJob {
 public:
  // Of two GPUs, or of a list; ended in the middle of its training.
  explicit LeftJob(std::vector<std::string> overrides) : overrides_(std::move(overrides)) {
    cluster_.tasks().SetGpus(kWorker, 2);
    const absl::StatusOr<TrainSummary> left = Run(overrides_, /*epochs=*/100000);
    EXPECT_TRUE(absl::IsCancelled(left.status())) << left.status();
  }

  absl::StatusOr<TrainSummary> GoOn(int32_t gpus, const std::string& other = "name=perceptron") {
    cluster_.tasks().SetGpus(kWorker, gpus);
    std::vector<std::string> overrides = overrides_;
    overrides.push_back(other);
    return Run(overrides, /*epochs=*/2);
  }

 private:
  static constexpr TaskId kWorker{Role::kWorker, 0};

  // With so many epochs that it takes a simulated while it is interrupted.
  absl::StatusOr<TrainSummary> Run(std::vector<std::string> overrides, int64_t epochs) {
    overrides.push_back(absl::StrCat("fit.epochs=", epochs));
    overrides.emplace_back("recovery.interval_ms=5");
    const JobSpec job = PerceptronJob(overrides);
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.recovery_directory = "/recovery";
    options.recovery_interval = job.recovery.interval;
    const auto coordinator = cluster_.Connect(std::move(options));
    if (!coordinator.ok()) return coordinator.status();
    bool over = false;
    cluster_.sim().CallAt(cluster_.sim().Now() + absl::Milliseconds(60), [&] {
      if (!over && epochs > 2) (*coordinator)->Abort(absl::CancelledError("interrupted"));
    });
    DataSources sources;
    sources.train.mutable_synthetic_digits()->set_seed(1);
    sources.train.mutable_synthetic_digits()->set_count(200);
    Trainer trainer(cluster_.WorldOf("chief:0"), cluster_.waiter(), **coordinator, job, sources);
    const absl::StatusOr<TrainSummary> summary = trainer.Run();
    over = true;
    cluster_.sim().RunFor(absl::Seconds(1));
    return summary;
  }

  const std::vector<std::string> overrides_;
  SimCluster cluster_{1, 0, 1};
};

TEST(AllDevices, AJobGoesOnWithTheSameDevicesAlone) {
  LeftJob job({"strategy.type=mirrored"});
  const absl::Status other = job.GoOn(/*gpus=*/1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("which were gpu:0, gpu:1, and now are gpu:0"),
                    HasSubstr("recovery.directory")));
  EXPECT_THAT(std::string(job.GoOn(/*gpus=*/0).status().message()), HasSubstr("now are cpu:0"));
  const absl::StatusOr<TrainSummary> same = job.GoOn(/*gpus=*/2);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_GE(same->epochs, 2);
}

// Moving statistics are the mean of what replicas computed: another number of them is another job.
TEST(AllDevices, AJobWithStatisticsGoesOnWithTheSameDevicesAlone) {
  LeftJob job({"strategy.type=mirrored", WithStatistics(false)});
  const absl::Status other = job.GoOn(/*gpus=*/1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("which were gpu:0, gpu:1, and now are"));
  const absl::StatusOr<TrainSummary> same = job.GoOn(/*gpus=*/2);
  EXPECT_TRUE(same.ok()) << same.status();
}

// As where they are named.
TEST(AllDevices, AJobGoesOnWithTheNamedDevicesAlone) {
  LeftJob job({"strategy.type=mirrored", R"(strategy.devices=["gpu:0","gpu:1"])"});
  const absl::Status other = job.GoOn(2, R"(strategy.devices=["gpu:0"])").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("strategy"));
  EXPECT_TRUE(job.GoOn(2).ok());
  LeftJob statistics(
      {"strategy.type=mirrored", R"(strategy.devices=["gpu:0","gpu:1"])", WithStatistics(false)});
  EXPECT_EQ(statistics.GoOn(2, R"(strategy.devices=["gpu:0"])").status(), other);
}

}  // namespace
}  // namespace cohort
