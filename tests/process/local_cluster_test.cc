// The three daemons as real processes over gRPC on loopback.

#include "coordinator/cluster/local_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "common/wire/real_world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/support/run_process.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

class LocalClusterTest : public testing::Test {
 protected:
  void StartTasks(int ps, int workers) {
    LocalCluster::Options options;
    options.ps = ps;
    options.workers = workers;
    options.binary_directory = COHORT_BIN_DIR;
    options.state_directory = MakeTemporaryDirectory("local-cluster");
    auto started = LocalCluster::Start(world.world(), waiter, options);
    ASSERT_TRUE(started.ok()) << started.status();
    tasks = *std::move(started);
    ClusterCoordinator::Options connect;
    connect.cluster = tasks->spec();
    connect.closures_in_flight = 4;
    connect.address = [tasks = tasks](TaskId task) { return tasks->Address(task); };
    auto connected = ClusterCoordinator::Connect(world.world(), waiter, connect);
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    VariableSpec spec;
    spec.name = "counter";
    spec.initializer.set_op("zeros");
    auto made = coordinator->Scope(AssignAdd()).CreateVariable(spec);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(*made);
    auto registered = coordinator->Register(IncrementProgram("counter"));
    ASSERT_TRUE(registered.ok());
    increment = *registered;
  }

  void TearDown() override {
    coordinator.reset();
    if (tasks != nullptr) tasks->Stop(waiter, absl::Seconds(10));
  }

  RealWorld world{2};
  BlockingWaiter waiter;
  std::shared_ptr<LocalCluster> tasks;
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
};

TEST_F(LocalClusterTest, CountsEveryIncrementOnce) {
  StartTasks(2, 3);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), 1000.0f);
}

TEST_F(LocalClusterTest, AKilledWorkerLosesNoIncrementAndComesBack) {
  StartTasks(1, 2);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
    // The closures so far may be anywhere: queued, running or done.
    if (i == 500) kill(tasks->pids().at(TaskId{Role::kWorker, 0}), SIGKILL);
  }
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), 2000.0f);
  // The restarted worker is attached again and takes closures.
  while (coordinator->stats().workers_ready < 2) {
    ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
    ASSERT_TRUE(coordinator->Join().ok());
  }
}

TEST_F(LocalClusterTest, ALostParameterServerIsNamed) {
  StartTasks(2, 1);
  kill(tasks->pids().at(TaskId{Role::kPs, 1}), SIGKILL);
  absl::Status error;
  while (error.ok()) {
    error = coordinator->Schedule(increment, {}).status();
    if (error.ok()) error = coordinator->Join();
  }
  EXPECT_NE(error.message().find("ps:1"), std::string::npos) << error;
}

}  // namespace
}  // namespace cohort
