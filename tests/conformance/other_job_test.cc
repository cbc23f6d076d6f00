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
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

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

}  // namespace
}  // namespace cohort
