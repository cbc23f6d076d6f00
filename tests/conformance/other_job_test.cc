// Two jobs and one cluster: which coordinator gets the tasks, what the other one is told, and what
// both do to them when they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLease = absl::Seconds(2);

class OtherJob : public testing::Test {
 protected:
  struct Start {
    std::string job = "one";
    std::optional<uint64_t> settings = 1;
    bool take_over = false;
  };
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(const std::string& host,
                                                              const Start& start) {
    ClusterCoordinator::Options options;
    options.cluster = cluster.tasks().spec();
    options.job = start.job;
    options.settings = start.settings;
    options.take_over = start.take_over;
    options.place = absl::StrCat("process 12 on host ", host);
    options.lease = kLease;
    options.connect_timeout = absl::Seconds(20);
    return ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(), std::move(options));
  }

  // Counts to `count` in variables of its own, as nobody else has counted in.
  void ExpectCounts(ClusterCoordinator& coordinator, int count) {
    const auto counter = MakeCounter(coordinator);
    ASSERT_TRUE(counter.ok()) << counter.status();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(coordinator.Schedule(counter->increment, {}).ok());
    }
    const absl::Status joined = coordinator.Join();
    ASSERT_TRUE(joined.ok()) << joined;
    EXPECT_EQ(*(*coordinator.Read(counter->variable)).data<float>(), static_cast<float>(count));
    EXPECT_LE(coordinator.parts().ps->Stats()->pushes(), static_cast<uint64_t>(count));
  }

  SimCluster cluster{11, /*ps=*/2, /*workers=*/2};
};

TEST_F(OtherJob, IsRefusedAtOnceNamingTheOneThatLives) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectCounts(**one, 5);
  for (const Start& start : {Start{"two"}, Start{"one", 2}, Start{"one", std::nullopt}}) {
    const absl::Time asked = cluster.sim().Now();
    const absl::Status refused = Connect("chief:1", start).status();
    EXPECT_EQ(ClassOf(refused), proto::CONFIGURATION) << refused;
    const char* const same_name =
        start.job == "one" ? ", of the same name with other settings," : "";
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("job 'one'", same_name, " runs on this cluster")));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(", process 12 on host chief:0) holds "));
    EXPECT_LT(cluster.sim().Now() - asked, kLease);
  }
  EXPECT_TRUE((*one)->Done().value_or(false)) << "it was left alone";
  EXPECT_TRUE((*one)->Leave(Farewell::kKeep).ok());
}

TEST_F(OtherJob, HasTheTasksAfterALeaseOfSilence) {
  auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectCounts(**one, 5);
  cluster.network().Kill("chief:0");
  const absl::Time killed = cluster.sim().Now();
  const auto two = Connect("chief:1", {"two"});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_GE(cluster.sim().Now() - killed, kLease * 0.8);
  EXPECT_LT(cluster.sim().Now() - killed, kLease * 2);
  ExpectCounts(**two, 3);
}

TEST_F(OtherJob, TheSameOneTakesOverFromItselfAtOnceAndMakesItsVariablesAnew) {
  auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectCounts(**one, 5);
  const absl::Time asked = cluster.sim().Now();
  const auto again = Connect("chief:1", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(cluster.sim().Now() - asked, kLease / 2);
  ExpectCounts(**again, 3);
}

TEST_F(OtherJob, HasAtOnceWhatWasKeptForTheNext) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectCounts(**one, 5);
  EXPECT_TRUE((*one)->Leave(Farewell::kKeep).ok());
  const absl::Time asked = cluster.sim().Now();
  const auto two = Connect("chief:1", {"two"});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_LT(cluster.sim().Now() - asked, kLease / 2);
  ExpectCounts(**two, 3);
}

TEST_F(OtherJob, TakesOverWhenItIsToldToAndTheFirstEndsNamingIt) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectCounts(**one, 5);
  const auto two = Connect("chief:1", {"two", 1, /*take_over=*/true});
  ASSERT_TRUE(two.ok()) << two.status();
  cluster.sim().RunFor(kLease);
  const absl::Status ended = (*one)->Join();
  EXPECT_EQ(ClassOf(ended), proto::STALE);
  EXPECT_THAT(std::string(ended.message()),
              HasSubstr("another coordinator has taken over this job"));
  EXPECT_THAT(std::string(ended.message()), HasSubstr("job 'two', process 12 on host chief:1"));
  EXPECT_EQ(ClassOf((*one)->Leave(Farewell::kShutDown)), proto::STALE);
  ExpectCounts(**two, 3);
}

// Tells when the heir comes to the first parameter server.
class FirstAttach final : public SimWatcher {
 public:
  explicit FirstAttach(std::function<void()> on_come) : on_come_(std::move(on_come)) {}
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (on_come_ == nullptr || message.from != "chief:1") return;
    if (absl::EndsWith(message.method, "/Attach")) std::exchange(on_come_, nullptr)();
  }
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  std::function<void()> on_come_;
};

// The new coordinator has claimed the parameter servers and does not reach the workers yet, so they
// would still obey the old one.
class Superseded : public OtherJob, public testing::WithParamInterface<int> {};

TEST_P(Superseded, EndsNoTaskWheneverItLeaves) {
  const auto old = Connect("chief:0", {});
  ASSERT_TRUE(old.ok()) << old.status();
  ExpectCounts(**old, 5);
  for (const char* worker : {"worker:0", "worker:1"}) cluster.network().Cut("chief:1", worker);
  absl::Status left;
  FirstAttach attach([&] {
    cluster.sim().CallAt(cluster.sim().Now() + absl::Microseconds(200) * GetParam(), [&] {
      left = (*old)->Leave(Farewell::kShutDown);
      cluster.network().HealAll();
    });
  });
  cluster.network().SetWatcher(&attach);
  const auto heir = Connect("chief:1", {});
  cluster.network().SetWatcher(nullptr);
  EXPECT_EQ(ClassOf(left), proto::STALE) << left;
  ASSERT_TRUE(heir.ok()) << heir.status();
  ExpectCounts(**heir, 3);
}

// In steps of 0.2 ms: soon it hears of it by itself.
INSTANTIATE_TEST_SUITE_P(Delays, Superseded,
                         testing::Values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 100,
                                         5000));

TEST_F(OtherJob, WhatIsToBeForgottenIsTheHeirsByThen) {
  ClusterCoordinator::Options options;
  options.cluster = cluster.tasks().spec();
  options.settings = 1;
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(50);
  const auto connect = [&](const std::string& host) {
    auto made = ClusterCoordinator::Connect(cluster.WorldOf(host), cluster.waiter(), options);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  };
  const auto old = connect("chief:0");
  ASSERT_TRUE(MakeCounter(*old).ok());
  ASSERT_TRUE(old->ResumeState().ok());
  ASSERT_TRUE(old->MakeDurable().ok());
  // Nobody has told the old one.
  for (const char* task : {"worker:0", "worker:1"}) cluster.network().Cut("chief:0", task);
  const auto heir = connect("chief:1");
  EXPECT_EQ(ClassOf(old->ForgetState()), proto::STALE);
  ASSERT_TRUE(MakeCounter(*heir).ok());
  const auto left = heir->ResumeState();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(left->has_value());
}

// The variables live in the workers (multi_worker_mirrored): the same rules, and what the first job
// has trained is nothing to the second one.
class OtherMirroredJob : public testing::Test {
 protected:
  static constexpr int64_t kExamples = 99;

  struct Start {
    std::string job = "one";
    bool take_over = false;
  };
  absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(const std::string& host,
                                                              const Start& start) {
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
    options.cluster = cluster_.tasks().spec();
    options.job = start.job;
    options.take_over = start.take_over;
    options.place = absl::StrCat("process 12 on host ", host);
    options.lease = kLease;
    options.connect_timeout = absl::Seconds(20);
    return ClusterCoordinator::Connect(cluster_.WorldOf(host), cluster_.waiter(),
                                       std::move(options));
  }

  // Trains as a job that has the tasks for itself, from the start: the losses are the same bits.
  void ExpectTrains(ClusterCoordinator& coordinator, int64_t steps) {
    StepwiseTraining training(coordinator, job_, kExamples);
    ASSERT_TRUE(training.Begin().ok());
    const auto losses = training.Run(steps);
    ASSERT_TRUE(losses.ok()) << losses.status();
    EXPECT_EQ(*losses,
              TrainJob(job_, {.workers = 2, .examples = kExamples, .steps = steps}).losses);
    const auto values = training.Values();
    ASSERT_TRUE(values.ok()) << values.status();
    for (const uint32_t worker : {0u, 1u}) EXPECT_EQ(*training.CopyOf(worker), *values);
  }

  const JobSpec job_ = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  SimCluster cluster_{11, /*ps=*/0, /*workers=*/2};
};

TEST_F(OtherMirroredJob, IsRefusedAtOnceNamingTheOneThatLives) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  const absl::Time asked = cluster_.sim().Now();
  const absl::Status refused = Connect("chief:1", {"two"}).status();
  EXPECT_EQ(ClassOf(refused), proto::CONFIGURATION) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job 'one' runs on this cluster"));
  EXPECT_LT(cluster_.sim().Now() - asked, kLease);
  ExpectTrains(**one, 8);
  EXPECT_TRUE((*one)->Leave(Farewell::kKeep).ok());
}

TEST_F(OtherMirroredJob, HasTheTasksAfterALeaseOfSilence) {
  auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectTrains(**one, 8);
  cluster_.network().Kill("chief:0");
  const absl::Time killed = cluster_.sim().Now();
  const auto two = Connect("chief:1", {"two"});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_GE(cluster_.sim().Now() - killed, kLease * 0.8);
  EXPECT_LT(cluster_.sim().Now() - killed, kLease * 2);
  ExpectTrains(**two, 5);
}

TEST_F(OtherMirroredJob, TheSameOneTakesOverFromItselfAtOnce) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectTrains(**one, 8);
  const absl::Time asked = cluster_.sim().Now();
  const auto again = Connect("chief:1", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(cluster_.sim().Now() - asked, kLease / 2);
  ExpectTrains(**again, 5);
  EXPECT_EQ(ClassOf((*one)->Leave(Farewell::kShutDown)), proto::STALE);
  EXPECT_TRUE((*again)->Done().value_or(false)) << "it was left alone";
}

TEST_F(OtherMirroredJob, TakesOverWhenItIsToldToAndHasWhatIsKept) {
  const auto one = Connect("chief:0", {});
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectTrains(**one, 8);
  const auto two = Connect("chief:1", {"two", /*take_over=*/true});
  ASSERT_TRUE(two.ok()) << two.status();
  cluster_.sim().RunFor(kLease);
  EXPECT_EQ(ClassOf((*one)->Join()), proto::STALE);
  EXPECT_EQ(ClassOf((*one)->Leave(Farewell::kShutDown)), proto::STALE);
  ExpectTrains(**two, 5);
  EXPECT_TRUE((*two)->Leave(Farewell::kKeep).ok());
  const auto three = Connect("chief:2", {"three"});
  ASSERT_TRUE(three.ok()) << three.status();
  ExpectTrains(**three, 4);
}

// Who starts last is missing, and nobody else.
TEST(StartReport, NamesWhoDoesNotAnswerNow) {
  SimCluster cluster(12, /*ps=*/2, /*workers=*/2);
  for (const TaskId task : {TaskId{Role::kPs, 0}, TaskId{Role::kPs, 1}, TaskId{Role::kWorker, 0},
                            TaskId{Role::kWorker, 1}}) {
    cluster.tasks().Kill(task);
  }
  const absl::Time start = cluster.sim().Now();
  cluster.sim().CallAt(start + absl::Milliseconds(500), [&] {
    cluster.tasks().Start({Role::kPs, 0});
    cluster.tasks().Start({Role::kWorker, 0});
    cluster.tasks().Start({Role::kWorker, 1});
  });
  cluster.sim().CallAt(start + absl::Seconds(3), [&] { cluster.tasks().Kill({Role::kWorker, 0}); });
  ClusterCoordinator::Options options;
  options.connect_timeout = absl::Seconds(6);
  const absl::Status report = cluster.Connect(std::move(options)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(report)) << report;
  const std::string text(report.message());
  EXPECT_THAT(text, HasSubstr("ps:1 does not answer"));
  EXPECT_THAT(text, HasSubstr("worker:0 does not answer"));
  EXPECT_THAT(text, Not(HasSubstr("ps:0")));
  EXPECT_THAT(text, Not(HasSubstr("worker:1")));
}

// TF_CONFIG gives the address of one task to another: who answers there is named, and nobody else.
TEST(StartReport, NamesAnAddressAtWhichAnotherTaskAnswers) {
  SimCluster cluster(13, /*ps=*/2, /*workers=*/2);
  const ClusterSpec right = cluster.tasks().spec();
  struct Swap {
    TaskId task, answers;
  };
  for (const Swap& swap :
       {Swap{{Role::kWorker, 1}, {Role::kWorker, 0}}, Swap{{Role::kWorker, 1}, {Role::kPs, 1}},
        Swap{{Role::kPs, 0}, {Role::kWorker, 1}}}) {
    ClusterCoordinator::Options options;
    options.settings = 1;
    options.connect_timeout = absl::Seconds(6);
    options.workers.min = 2;
    for (const auto& [task, address] : right.tasks()) {
      options.cluster.Add(task, task == swap.task ? *right.Address(swap.answers) : address);
    }
    const absl::Status report = ClusterCoordinator::Connect(cluster.WorldOf("chief:0"),
                                                            cluster.waiter(), std::move(options))
                                    .status();
    EXPECT_FALSE(report.ok());
    const std::string text(report.message());
    EXPECT_THAT(text, HasSubstr(absl::StrCat(swap.task.ToString(), " does not answer")));
    EXPECT_THAT(text, HasSubstr(*right.Address(swap.answers)));
    EXPECT_THAT(text, HasSubstr(swap.answers.ToString()));
    for (const auto& [task, address] : right.tasks()) {
      if (task == swap.task || task == swap.answers || task.role == Role::kChief) continue;
      EXPECT_THAT(text, Not(HasSubstr(task.ToString()))) << "it is well";
    }
  }
}

}  // namespace
}  // namespace cohort
