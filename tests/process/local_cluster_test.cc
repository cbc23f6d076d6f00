// The three daemons as real processes over gRPC on loopback.

#include "coordinator/local/local_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "common/wire/error_detail.h"
#include "common/wire/route/real_world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/support/counter.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Operators (domain, name) one after another on a vector, in nodes "n0", "n1", …: what no builder
// of this project would let pass. Fetches the last value.
proto::Program ChainProgram(const std::vector<std::pair<std::string, std::string>>& operators,
                            DType dtype = DType::kFloat32) {
  onnx::ModelProto model;
  model.set_ir_version(kOnnxIrVersion);
  for (const auto& [domain, version] : {std::pair("", kOnnxOpset), {"cohort", kCohortOpset}}) {
    onnx::OperatorSetIdProto* const opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  onnx::GraphProto* const graph = model.mutable_graph();
  graph->set_name("chain");
  std::string value = "x";
  const auto describe = [dtype](onnx::ValueInfoProto* info, const std::string& name) {
    info->set_name(name);
    onnx::TypeProto_Tensor* const type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(static_cast<int32_t>(dtype));
    type->mutable_shape()->add_dim()->set_dim_value(2);
  };
  describe(graph->add_input(), value);
  for (const auto& [domain, op] : operators) {
    onnx::NodeProto* const node = graph->add_node();
    node->set_name(absl::StrCat("n", graph->node_size() - 1));
    node->set_domain(domain);
    node->set_op_type(op);
    node->add_input(value);
    value = absl::StrCat("v", graph->node_size());
    node->add_output(value);
  }
  describe(graph->add_output(), value);
  proto::Program program;
  program.set_name("chain");
  program.set_model(model.SerializeAsString());
  program.add_inputs()->set_input("x");
  program.mutable_inputs(0)->set_argument(0);
  program.add_outputs()->set_output(value);
  program.mutable_outputs(0)->set_fetch(true);
  return program;
}

class LocalClusterTest : public testing::Test {
 protected:
  void StartTasks(int ps, int workers) {
    LocalCluster::Options options;
    options.ps = ps;
    options.workers = workers;
    options.binary_directory = COHORT_BIN_DIR;
    options.state_directory = directory.path();
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
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
  }

  void TearDown() override {
    coordinator.reset();
    if (tasks != nullptr) tasks->Stop(waiter, absl::Seconds(10));
  }

  TempDirectory directory{"local-cluster"};
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

// Also the worker, which starts itself again to set a variable of OpenMP.
TEST_F(LocalClusterTest, ProcessesHaveTheNamesOfTheirPrograms) {
  unsetenv("OMP_WAIT_POLICY");
  StartTasks(1, 1);
  for (const auto& [task, pid] : tasks->pids()) {
    std::string name;
    std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
    EXPECT_EQ(name, RoleName(task.role));
  }
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

// The program reaches the workers as it is: nothing on the way there looks into the graph.
TEST_F(LocalClusterTest, AProgramThatCannotRunIsOneErrorThatListsEveryOffendingNode) {
  StartTasks(1, 2);
  const auto failing = coordinator->Register(ChainProgram(
      {{"", "Rellu"}, {"cohort", "Frobnicate"}, {"", "Relu"}, {"org", "Relu"}, {"", "Hardmax"}}));
  ASSERT_TRUE(failing.ok()) << failing.status();
  const auto result = coordinator->Schedule(*failing, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const absl::Status error = coordinator->Join();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ClassOf(error), proto::APPLICATION);
  EXPECT_EQ(DetailOf(error).origin().role(), "worker");
  const std::string text(error.message());
  EXPECT_THAT(text, HasSubstr("program \"chain\": the model has 4 problems: "));
  EXPECT_THAT(text, HasSubstr("node \"n0\" (onnx.Rellu): unknown operator"));
  EXPECT_THAT(text, HasSubstr("node \"n1\" (cohort.Frobnicate): unknown operator"));
  EXPECT_THAT(text, HasSubstr("node \"n3\" (org.Relu): the model imports no opset"));
  EXPECT_THAT(text, HasSubstr("node \"n4\" (onnx.Hardmax): has no kernel"));
  EXPECT_EQ(text.find("n2"), std::string::npos) << "nothing is wrong with it";
  EXPECT_EQ(coordinator->stats().put_back, 0u) << "another worker would say the same";
  EXPECT_EQ(coordinator->Fetch(*result).status().message(), text);
  // The cluster is as good as before.
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), 1.0f);
}

TEST_F(LocalClusterTest, EveryNodeWithoutAKernelIsListed) {
  StartTasks(1, 1);
  const auto failing =
      coordinator->Register(ChainProgram({{"", "Hardmax"}, {"", "Relu"}, {"", "Acosh"}}));
  ASSERT_TRUE(failing.ok()) << failing.status();
  ASSERT_TRUE(coordinator->Schedule(*failing, {}).ok());
  const std::string text(coordinator->Join().message());
  EXPECT_THAT(text, HasSubstr("node 'n0' (Hardmax) has no kernel"));
  EXPECT_THAT(text, HasSubstr("node 'n2' (Acosh) has no kernel"));
}

// ONNX allows these types, so only the worker can know.
TEST_F(LocalClusterTest, EveryNodeOfATypeWithoutAKernelIsListed) {
  StartTasks(1, 1);
  const auto failing = coordinator->Register(ChainProgram(
      {{"", "Sqrt"}, {"", "Identity"}, {"", "Exp"}, {"", "Hardmax"}}, DType::kFloat16));
  ASSERT_TRUE(failing.ok()) << failing.status();
  ASSERT_TRUE(coordinator->Schedule(*failing, {}).ok());
  const absl::Status error = coordinator->Join();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ClassOf(error), proto::APPLICATION);
  EXPECT_EQ(DetailOf(error).origin().role(), "worker");
  const std::string text(error.message());
  EXPECT_THAT(text, HasSubstr("node 'n0' (Sqrt): input 0 'x' is float16, but its kernel has "
                              "float32, float64"));
  EXPECT_THAT(text, HasSubstr("node 'n2' (Exp): input 0 'v2' is float16"));
  EXPECT_THAT(text, HasSubstr("node 'n3' (Hardmax) has no kernel"));
  EXPECT_EQ(text.find("n1"), std::string::npos) << "bytes of any type are passed on";
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
