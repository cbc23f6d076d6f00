// A cluster whose links need longer for a message than a call may be silent, in simulated time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/program/graph_builder.h"
#include "coordinator/api/checkpoint_manager.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

constexpr int64_t kElements = 1 << 20;     // 4 MiB
constexpr double kBytesPerSecond = 100e3;  // 42 s a message

// Adds the value of `variable` to it.
proto::Program DoublingProgram(const std::string& variable) {
  GraphBuilder graph("doubling");
  const std::string value = graph.Input("value", DType::kFloat32, {kElements});
  const std::string pushed = graph.Op("Identity", {value});
  graph.Output(pushed);
  proto::Program program;
  program.set_name("doubling");
  program.set_model(graph.Finish()->SerializeAsString());
  proto::InputBinding* const pull = program.add_inputs();
  pull->set_input(value);
  pull->set_variable(variable);
  proto::OutputBinding* const push = program.add_outputs();
  push->set_output(pushed);
  push->set_push(variable);
  return program;
}

// Counts calls by method.
class CallCounter final : public SimWatcher {
 public:
  SimFate OnRequest(const SimMessage& message) override {
    ++calls[std::string(message.method.substr(message.method.rfind('/') + 1))];
    return {};
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }
  std::map<std::string, int> calls;
};

class SlowHomes : public testing::Test {
 protected:
  SlowHomes() {
    ClusterCoordinator::Options options;
    options.call_timeout = absl::Seconds(20);
    coordinator = *cluster.Connect(std::move(options));
    VariableSpec spec;
    spec.name = "large";
    spec.shape = Shape{kElements};
    spec.initializer.set_op("ones");
    variable = *coordinator->Scope(AssignAdd()).CreateVariable(spec);
    program = *coordinator->Register(DoublingProgram("large"));
    cluster.network().SetRate(kBytesPerSecond);
    cluster.network().SetWatcher(&counter);
  }
  ~SlowHomes() override { cluster.network().SetWatcher(nullptr); }

  float First() {
    const absl::StatusOr<Tensor> value = coordinator->Read(*variable);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->span<float>()[kElements - 1] : -1;
  }

  SimCluster cluster{3, 1, 1, Disks::kPrivate};
  CallCounter counter;
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::optional<Variable> variable;
  ProgramHandle program;
};

TEST_F(SlowHomes, EveryStepIsMadeOnceInItsFirstAttempt) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(coordinator->Schedule(program, {}).ok());
    const absl::Status joined = coordinator->Join(absl::Minutes(10));
    ASSERT_TRUE(joined.ok()) << joined;
  }
  EXPECT_EQ(counter.calls["RunClosure"], 3);
  EXPECT_EQ(counter.calls["Pull"], 3);
  EXPECT_EQ(counter.calls["Push"], 3);
  EXPECT_EQ(First(), 8.0f);
  EXPECT_EQ(counter.calls["Pull"], 4);
}

TEST_F(SlowHomes, ACheckpointIsStreamedBothWays) {
  const World world = cluster.WorldOf("chief:0");
  CheckpointManager manager(world.files, *coordinator, {"/checkpoints", 2});
  const auto prefix = manager.Save({1, 1});
  ASSERT_TRUE(prefix.ok()) << prefix.status();
  EXPECT_EQ(counter.calls["ReadShard"], 1);
  ASSERT_TRUE(coordinator->Schedule(program, {}).ok());
  ASSERT_TRUE(coordinator->Join(absl::Minutes(10)).ok());
  const auto restored = manager.Restore(*prefix, {variable->layout()});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(counter.calls["WriteStaged"], 1);
  EXPECT_EQ(First(), 1.0f);
}

}  // namespace
}  // namespace cohort
