// A closure that kills its workers must not kill all of them (CC-13).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

class QuarantineTest : public SchedulerTest {
 protected:
  // The worker process dies of the closure.
  void DieOf(uint64_t incarnation) {
    const auto channel = AddWorker(0, incarnation);
    channel->AnswerPreparations();
    ASSERT_EQ(channel->calls.size(), 1u);
    channel->AnswerRun(absl::UnavailableError("connection reset"));
  }
};

TEST_F(QuarantineTest, AClosureThatEndsWithThreeProcessesIsAnErrorThatListsThem) {
  Make(1, 100, /*attempts_max=*/10);
  const auto value = Schedule();
  for (uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    EXPECT_FALSE(value->IsReady());
    DieOf(incarnation);
  }
  ASSERT_TRUE(value->IsReady());
  EXPECT_EQ(value->result().status().message(),
            "closure 1 is quarantined: 3 worker processes ended with it: "
            "worker:0 (incarnation 1): connection reset; "
            "worker:0 (incarnation 2): connection reset; "
            "worker:0 (incarnation 3): connection reset");
  EXPECT_EQ(scheduler->stats().quarantined, 1u);
  Join();
  ASSERT_EQ(fences.size(), 1u);
  fences[0].second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0], value->result().status());
}

TEST_F(QuarantineTest, ABrokenConnectionToOneProcessCountsOnce) {
  Make(1, 100, /*attempts_max=*/10);
  const auto value = Schedule();
  for (int i = 0; i < 5; ++i) DieOf(/*incarnation=*/1);
  EXPECT_FALSE(value->IsReady());
  EXPECT_EQ(scheduler->stats().quarantined, 0u);
}

TEST_F(QuarantineTest, AJobMayGoOnWithoutTheClosure) {
  quarantine = Quarantine::kSkip;
  Make(1, 100, /*attempts_max=*/10);
  const auto poison = Schedule();
  for (uint64_t incarnation = 1; incarnation <= 3; ++incarnation) DieOf(incarnation);
  const auto good = Schedule();
  const auto channel = AddWorker(0, 4);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_TRUE(joined[0].ok());
  EXPECT_TRUE(good->result().ok());
  EXPECT_FALSE(poison->result().ok());
  EXPECT_EQ(scheduler->stats().quarantined, 1u);
}

// A worker whose machine is broken dies of whatever it runs.
TEST_F(QuarantineTest, AWorkerThatKeepsDyingIsItsOwnCauseWhereThereAreOthers) {
  Make(1, 100, /*attempts_max=*/10);
  const auto well = AddWorker(1);
  Schedule();  // the first one keeps the worker that is well busy
  const auto value = Schedule();
  for (uint64_t incarnation = 1; incarnation <= 8; ++incarnation) {
    DieOf(incarnation);
    scheduler->WorkerLost(0, absl::UnavailableError("gone"));
  }
  EXPECT_FALSE(value->IsReady());
  well->AnswerPreparations();
  well->AnswerRun(absl::OkStatus());
  well->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
  EXPECT_EQ(scheduler->stats().quarantined, 0u);
}

TEST_F(QuarantineTest, WhatDiesWhileItIsGivenItsDataSetDoesNotDieOfTheClosure) {
  Make(1, 100, /*attempts_max=*/10);
  const auto value = Schedule();
  for (uint64_t incarnation = 1; incarnation <= 20; ++incarnation) {
    const auto channel = AddWorker(static_cast<int>(incarnation % 2), incarnation);
    ASSERT_FALSE(channel->calls.empty());
    ASSERT_NE(channel->calls.front().method, ScriptedChannel::kRun);
    channel->AnswerRun(absl::UnavailableError("connection reset"));
    scheduler->WorkerLost(static_cast<int>(incarnation % 2), absl::UnavailableError("gone"));
  }
  EXPECT_FALSE(value->IsReady());
  EXPECT_EQ(scheduler->stats().quarantined, 0u);
}

// Three workers die of it one after another, before anybody knows that the first is gone for good.
TEST_F(QuarantineTest, ItIsQuarantinedWhenItIsKnownThatTheProcessesHaveEnded) {
  Make(1, 100, /*attempts_max=*/10);
  std::vector<std::shared_ptr<ScriptedChannel>> workers;
  for (int worker = 0; worker < 3; ++worker) workers.push_back(AddWorker(worker));
  const auto value = Schedule();
  for (const auto& worker : workers) {
    worker->AnswerPreparations();
    ASSERT_EQ(worker->calls.size(), 1u);
    worker->AnswerRun(absl::UnavailableError("connection reset"));
  }
  EXPECT_FALSE(value->IsReady());
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_FALSE(value->IsReady());
    scheduler->WorkerLost(worker, absl::UnavailableError("gone"));
  }
  ASSERT_TRUE(value->IsReady());
  EXPECT_THAT(std::string(value->result().status().message()),
              testing::HasSubstr("closure 1 is quarantined: 3 worker processes ended with it"));
}

TEST_F(QuarantineTest, ProcessesThatTheNetworkHidForAWhileHaveNotEnded) {
  Make(1, 100, /*attempts_max=*/10);
  std::vector<std::shared_ptr<ScriptedChannel>> workers;
  for (int worker = 0; worker < 3; ++worker) workers.push_back(AddWorker(worker));
  const auto value = Schedule();
  for (int worker = 0; worker < 3; ++worker) {
    workers[static_cast<size_t>(worker)]->AnswerPreparations();
    workers[static_cast<size_t>(worker)]->AnswerRun(absl::UnavailableError("connection reset"));
    if (worker == 0) AddWorker(0);
  }
  for (int worker = 1; worker < 3; ++worker) {
    scheduler->WorkerLost(worker, absl::UnavailableError("silent for a lease"));
  }
  EXPECT_FALSE(value->IsReady());
  EXPECT_EQ(scheduler->stats().quarantined, 0u);
}

}  // namespace
}  // namespace cohort
