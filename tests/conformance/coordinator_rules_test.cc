// What tf.distribute's ClusterCoordinator promises beyond its queue, one scenario per promise, on
// the simulated cluster. Each expectation is TensorFlow's: the named test of its own suite
// (coordinator/cluster_coordinator_test.py, fault_tolerance_test_base.py), in this project's terms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/error_detail.h"
#include "common/wire/inprocess_transport.h"
#include "coordinator/api/input_pipeline.h"
#include "coordinator/api/training_strategy.h"
#include "coordinator/schedule/closure.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

ClusterCoordinator::Options OptionsFor(SimCluster& cluster) {
  ClusterCoordinator::Options options;
  options.cluster = cluster.tasks().spec();
  return options;
}

class CoordinatorRules : public testing::Test {
 protected:
  void SetUp() override {
    auto connected = cluster.Connect();
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
    batch = MustRegister(BatchProgram());
    picky = MustRegister(PickyProgram());
  }

  ProgramHandle MustRegister(const proto::Program& program) {
    auto registered = coordinator->Register(program);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return registered.ok() ? *registered : nullptr;
  }

  IteratorHandle IteratorOver(const InputPipeline& pipeline) {
    return coordinator->MakeIterator(coordinator->CreatePerWorkerDataset(pipeline.spec()));
  }

  // A closure that cannot succeed: its argument is not float32[2].
  RemoteValue ScheduleFailing() {
    ScheduleOptions options;
    options.arguments = {Tensor::Scalar(1.0f)};
    auto value = coordinator->Schedule(picky, options);
    EXPECT_TRUE(value.ok()) << value.status();
    return *value;
  }

  // The batches of `count` closures that draw from `iterator`.
  std::vector<std::vector<int64_t>> Draw(const IteratorHandle& iterator, int count) {
    std::vector<RemoteValue> values;
    for (int i = 0; i < count; ++i) {
      auto value = coordinator->Schedule(batch, {{}, iterator});
      EXPECT_TRUE(value.ok()) << value.status();
      values.push_back(*value);
    }
    EXPECT_TRUE(coordinator->Join().ok());
    std::vector<std::vector<int64_t>> batches;
    for (const RemoteValue& value : values) {
      const auto fetched = coordinator->Fetch(value);
      EXPECT_TRUE(fetched.ok()) << fetched.status();
      const auto elements = fetched->at(0).span<int64_t>();
      batches.emplace_back(elements.begin(), elements.end());
    }
    return batches;
  }

  // Increments until `done`, at most a simulated minute.
  void IncrementUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 600 && !done(); ++i) {
      ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
      ASSERT_TRUE(coordinator->Join().ok());
      cluster.sim().RunFor(absl::Milliseconds(100));
    }
    EXPECT_TRUE(done());
  }

  SimCluster cluster{21, /*ps=*/2, /*workers=*/3};
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment, batch, picky;
};

// testClusterCoordinatorOnlyInitOnce.
TEST(TrainingStrategy, EveryCoordinatorOfAStrategyIsTheSameAndIsSetUpOnce) {
  SimCluster cluster(22, 1, 1);
  TrainingStrategy strategy(cluster.WorldOf("chief:0"), cluster.waiter(), OptionsFor(cluster));
  const auto first = strategy.Coordinator();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto counter = MakeCounter(**first);
  ASSERT_TRUE(counter.ok()) << counter.status();
  ASSERT_TRUE((*first)->Schedule(counter->increment, {}).ok());
  const auto second = strategy.Coordinator();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
  // A second set-up would have another epoch and so refuse what the first one made.
  ASSERT_TRUE((*second)->Join().ok());
  EXPECT_EQ((*second)->stats().done, 1u);
  EXPECT_EQ(*(*second)->Read(counter->variable)->data<float>(), 1.0f);
}

TEST(TrainingStrategy, AFailedConnectIsToldAndTriedAgain) {
  SimCluster cluster(23, 1, 1);
  cluster.tasks().Kill({Role::kPs, 0});
  ClusterCoordinator::Options options = OptionsFor(cluster);
  options.connect_timeout = absl::Seconds(5);
  TrainingStrategy strategy(cluster.WorldOf("chief:0"), cluster.waiter(), options);
  EXPECT_EQ(strategy.Coordinator().status().code(), absl::StatusCode::kDeadlineExceeded);
  cluster.tasks().Start({Role::kPs, 0});
  EXPECT_TRUE(strategy.Coordinator().ok());
}

// "Creation is not thread-safe upstream": here it is. Real threads.
TEST(TrainingStrategy, ThreadsThatAskAtOnceGetOneCoordinator) {
  ThreadPool pool({"pool", 2});
  RealClock clock;
  MemoryFileSystem files;
  InProcessTransport transport(clock, pool);
  const World world{clock, pool, files, transport};
  TestCluster::Options tasks;
  tasks.ps = {0};
  tasks.workers = {0};
  tasks.world_of = [&](const std::string&) { return world; };
  TestCluster cluster(tasks);
  BlockingWaiter waiter;
  ClusterCoordinator::Options options;
  options.cluster = cluster.spec();
  TrainingStrategy strategy(world, waiter, options);
  std::vector<ClusterCoordinator*> seen(8);
  std::vector<std::thread> threads;
  for (ClusterCoordinator*& slot : seen) {
    threads.emplace_back([&] {
      const auto coordinator = strategy.Coordinator();
      if (coordinator.ok()) slot = *coordinator;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(seen[0], nullptr);
  EXPECT_THAT(seen, Each(seen[0]));
}

// testPythonFunctionNotAllowedToSchedule: only what was made known beforehand can be scheduled.
TEST_F(CoordinatorRules, OnlyRegisteredProgramsOfThisCoordinatorAreScheduled) {
  const absl::Status nothing = coordinator->Schedule(nullptr, {}).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(nothing), HasSubstr("no program: give it what Register returned"));

  cluster.sim().RunFor(absl::Seconds(1));  // the epoch of another one differs
  const auto other = cluster.Connect();
  ASSERT_TRUE(other.ok()) << other.status();
  const absl::Status foreign = (*other)->Schedule(increment, {}).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(foreign), HasSubstr("the program of another coordinator"));
  const auto echo = (*other)->Register(BatchProgram());
  ASSERT_TRUE(echo.ok());
  const IteratorHandle iterator = IteratorOver(InputPipeline::Range(0, 4).Batch(2));
  EXPECT_THAT(MessageOf((*other)->Schedule(*echo, {{}, iterator}).status()),
              HasSubstr("the iterator of another coordinator"));
  EXPECT_TRUE((*other)->Join().ok()) << "a refused closure leaves nothing behind";
}

// An empty tensor and null handles are refused by name.
TEST_F(CoordinatorRules, ArgumentsHaveAValue) {
  ScheduleOptions options;
  const Tensor nothing;
  options.arguments.emplace_back(Tensor::Scalar(1.0f));
  options.arguments.emplace_back(nothing);
  const absl::Status empty = coordinator->Schedule(picky, options).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(empty), HasSubstr("argument 1 is a tensor without value"));
  EXPECT_THAT(MessageOf(coordinator->Schedule(batch, {{}, IteratorHandle()}).status()),
              HasSubstr("no iterator"));
  EXPECT_THAT(MessageOf(coordinator->Schedule(batch, {{}, SplitInput()}).status()),
              HasSubstr("no data set"));
  EXPECT_TRUE(coordinator->Join().ok());
}

// testResourceCanStillbeUsedAfterCancellation.
TEST_F(CoordinatorRules, AnIteratorIsUsableAfterACancellation) {
  const IteratorHandle iterator = IteratorOver(InputPipeline::Range(0, 1000).Batch(1));
  EXPECT_EQ(Draw(iterator, 6).size(), 6u);
  ScheduleFailing();
  const absl::Status error = coordinator->Join();
  ASSERT_EQ(ClassOf(error), proto::APPLICATION) << error;
  // Each worker goes on where it was: no element is drawn twice by one worker.
  std::map<int64_t, int> times;
  for (const auto& elements : Draw(iterator, 12)) ++times[elements.at(0)];
  for (const auto& [element, count] : times) EXPECT_LE(count, 3) << element;
  EXPECT_GE(times.rbegin()->first, 4) << "18 batches of 3 workers: one drew its fifth";
}

// testHandleDatasetCreationFailure and testWorkerPreemptionBetweenFunctions.
TEST_F(CoordinatorRules, AReturningWorkerGetsItsDataSetsAndIteratorsAgain) {
  const IteratorHandle iterator = IteratorOver(InputPipeline::Range(0, 7).Repeat().Batch(2));
  EXPECT_EQ(Draw(iterator, 6).size(), 6u);
  for (int worker = 0; worker < 3; ++worker) {
    cluster.tasks().Kill({Role::kWorker, worker});
    cluster.tasks().Start({Role::kWorker, worker});
  }
  const auto batches = Draw(iterator, 12);
  EXPECT_EQ(batches.size(), 12u);
  IncrementUntil([&] { return coordinator->stats().workers_ready == 3; });
}

// testInputError, testErroredInputNotUsed.
TEST_F(CoordinatorRules, AnInputThatCannotBeMadeIsAnErrorOnlyOnUse) {
  const IteratorHandle broken = IteratorOver(InputPipeline::FromIdxFiles({"/no/such.idx"}));
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ASSERT_TRUE(coordinator->Join().ok()) << "nobody used it";
  const auto value = coordinator->Schedule(batch, {{}, broken});
  ASSERT_TRUE(value.ok()) << value.status();
  const absl::Status error = coordinator->Join();
  EXPECT_EQ(ClassOf(error), proto::INPUT) << error;
  EXPECT_THAT(MessageOf(error), HasSubstr("/no/such.idx"));
  EXPECT_EQ(ClassOf(coordinator->Fetch(*value).status()), proto::INPUT);
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  EXPECT_TRUE(coordinator->Join().ok()) << "the error is cleared";
}

// testWorkerIndexDatasetFn and get_current_worker_index of a step: each worker sees its own index,
// with one program and one data set for all.
TEST_F(CoordinatorRules, StepsAndDataSetsKnowTheIndexOfTheirWorker) {
  const ProgramHandle index = MustRegister(WorkerIndexProgram());
  std::vector<RemoteValue> values;
  for (int i = 0; i < 12; ++i) values.push_back(*coordinator->Schedule(index, {}));
  ASSERT_TRUE(coordinator->Join().ok());
  std::set<int64_t> indices;
  for (const RemoteValue& value : values) {
    indices.insert(*coordinator->Fetch(value)->at(0).data<int64_t>());
  }
  EXPECT_THAT(indices, UnorderedElementsAre(0, 1, 2));

  // Worker i reads the elements i, i + 3, i + 6, … of nine, again and again.
  const IteratorHandle shards =
      IteratorOver(InputPipeline::Range(0, 9).ShardByWorker(3).Repeat().Batch(3));
  const auto batches = Draw(shards, 12);
  EXPECT_THAT(std::set(batches.begin(), batches.end()),
              ElementsAre(ElementsAre(0, 3, 6), ElementsAre(1, 4, 7), ElementsAre(2, 5, 8)));
  SplitInput split;
  split.dataset = shards->dataset;
  EXPECT_THAT(MessageOf(coordinator->Schedule(batch, {{}, split}).status()),
              HasSubstr("sharded by worker: use an iterator"));
}

// testTwoWorkersPreempted, without TensorFlow's repair that waits for every loser.
TEST_F(CoordinatorRules, ALostWorkerComesBackAloneWhileOthersWorkAndOneStaysAway) {
  cluster.tasks().Kill({Role::kWorker, 0});
  cluster.tasks().Kill({Role::kWorker, 1});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), 50.0f);
  IncrementUntil([&] { return coordinator->stats().workers_ready == 1; });
  cluster.tasks().Start({Role::kWorker, 1});
  IncrementUntil([&] { return coordinator->stats().workers_ready == 2; });
  // It takes closures, while worker 0 is still dead.
  const ProgramHandle index = MustRegister(WorkerIndexProgram());
  std::set<int64_t> indices;
  for (int i = 0; i < 12; ++i) {
    const auto value = coordinator->Schedule(index, {});
    ASSERT_TRUE(value.ok());
    ASSERT_TRUE(coordinator->Join().ok());
    indices.insert(*coordinator->Fetch(*value)->at(0).data<int64_t>());
  }
  EXPECT_THAT(indices, ElementsAre(1, 2));
}

// testJoinRaisesUnavailableErrorAtPsFailure, testScheduleRaises…, testPSPreemptionErrorType: always
// UNAVAILABLE of class PS_LOST that names the server, where TensorFlow has one of four types.
class LostPs : public CoordinatorRules {
 protected:
  static void ExpectNamed(const absl::Status& error) {
    EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable) << error;
    EXPECT_EQ(ClassOf(error), proto::PS_LOST) << error;
    EXPECT_EQ(DetailOf(error).origin().role(), "ps");
    EXPECT_EQ(DetailOf(error).origin().index(), 0);
  }
  void SetUp() override {
    CoordinatorRules::SetUp();  // the counter lives on ps:0
    cluster.tasks().Kill({Role::kPs, 0});
  }
};

TEST_F(LostPs, IsRaisedByJoin) {
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ExpectNamed(coordinator->Join());
}

TEST_F(LostPs, IsRaisedBySchedule) {
  cluster.sim().RunFor(absl::Seconds(30));
  ExpectNamed(coordinator->Schedule(increment, {}).status());
}

TEST_F(LostPs, IsRaisedByDone) {
  cluster.sim().RunFor(absl::Seconds(30));
  ExpectNamed(coordinator->Done().status());
}

TEST_F(LostPs, IsRaisedAgainByEveryLaterUse) {
  cluster.sim().RunFor(absl::Seconds(30));
  ExpectNamed(coordinator->Done().status());
  for (int i = 0; i < 3; ++i) {
    ExpectNamed(coordinator->Schedule(increment, {}).status());
    ExpectNamed(coordinator->Join());
  }
  ExpectNamed(coordinator->Read(*counter).status());
}

TEST_F(LostPs, IsRaisedAlsoWhenItCameBackEmpty) {
  cluster.tasks().Start({Role::kPs, 0});
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ExpectNamed(coordinator->Join());
}

}  // namespace
}  // namespace cohort
