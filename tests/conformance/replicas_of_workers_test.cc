// Replicas of several workers that meet inside a program (ReplicaContext.all_gather, all_reduce).
// The expectation is arithmetic, and the same program with as many replicas on one worker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kReplicas = 4;

// On as many workers as it is made with; a step of it is a gang of all of them.
class ReplicasOfWorkers {
 public:
  explicit ReplicasOfWorkers(int workers) : on_each_(kReplicas / workers), cluster_(1, 0, workers) {
    ClusterCoordinator::Options options;
    options.homes = Role::kWorker;
    options.mirrored = true;
    auto connected = cluster_.Connect(std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
    VariableSpec spec;
    spec.name = "v";
    spec.initializer.set_op("zeros");
    spec.aggregation = proto::AGGREGATION_SUM;
    v_.emplace(*coordinator_->Scope(AssignAdd()).CreateVariable(spec));
    proto::DatasetSpec data;
    data.mutable_source()->mutable_range()->set_begin(1);
    data.mutable_source()->mutable_range()->set_end(11);
    data.add_transforms()->mutable_batch()->set_size(5);
    data_ = coordinator_->CreatePerWorkerDataset(data);
  }

  // Of a graph with the inputs x, int64[-1] of the batch, and replica, the number of the replica;
  // it adds `result`, a float scalar, to v, and fetches the sum of it over replicas.
  ProgramHandle Program(GraphBuilder& graph, const std::string& result) {
    Bindings bindings;
    bindings.inputs["x"] = FromBatch(0);
    bindings.inputs["replica"] = FromContext(proto::REPLICA_ID);
    for (const bool fetch : {false, true}) {
      const std::string output = graph.Op("Identity", {result});
      graph.Output(output);
      bindings.outputs[output] = fetch ? ToFetch() : ToPush("v");
    }
    proto::Program program = *BindProgram("meets", *graph.Finish(), bindings);
    program.mutable_outputs(1)->set_of_replicas(proto::SUM_OF_REPLICAS);
    for (int i = 0; i < on_each_; ++i) {
      program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
    }
    program.mutable_replicas()->mutable_communication();
    const auto registered = coordinator_->Register(program);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return *registered;
  }

  absl::StatusOr<float> Step(const ProgramHandle& program) {
    ScheduleOptions closure;
    closure.input = SplitInput{data_, {}};
    closure.gang = true;
    closure.round.number = ++round_;
    const auto result = coordinator_->Schedule(program, std::move(closure));
    if (!result.ok()) return result.status();
    if (absl::Status joined = coordinator_->Join(); !joined.ok()) return joined;
    const auto fetched = coordinator_->Fetch(*result);
    if (!fetched.ok()) return fetched.status();
    return *(*fetched)[0].data<float>();
  }
  float Variable() { return *coordinator_->Read(*v_)->data<float>(); }

 private:
  const int on_each_;
  SimCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<cohort::Variable> v_;
  DatasetHandle data_;
  uint64_t round_ = 0;
};

std::string AsFloat(GraphBuilder& graph, const std::string& value) {
  return graph.Op("Cast", {value}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))});
}
std::string Total(GraphBuilder& graph, const std::string& value) {
  return graph.Op("ReduceSum", {value}, {IntAttribute("keepdims", 0)});
}

// The batch is 1, 2, 3, 4, 5, over four replicas of 2, 1, 1 and 1. Each gathers all of it, and
// counts it times its number and one.
TEST(ReplicasOfWorkers, GatherWhatAllHave) {
  for (const int workers : {1, 2, 4}) {
    ReplicasOfWorkers replicas(workers);
    GraphBuilder graph("gather");
    graph.Input("x", DType::kInt64, {-1});
    graph.Input("replica", DType::kInt64, {});
    const std::string all = graph.Op("AllGather", {"x"}, {IntAttribute("axis", 0)}, kCohortDomain);
    const std::string number =
        graph.Op("Add", {AsFloat(graph, "replica"), graph.Constant("one", Tensor::Scalar(1.0f))});
    const ProgramHandle program =
        replicas.Program(graph, graph.Op("Mul", {Total(graph, AsFloat(graph, all)), number}));
    for (int step = 1; step <= 3; ++step) {
      const auto sum = replicas.Step(program);
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, (1 + 2 + 3 + 4) * 15) << workers << " workers";
      EXPECT_EQ(replicas.Variable(), static_cast<float>(150 * step));
    }
  }
}

// The third and the fourth replica have no such row, while the others wait for them; of two workers
// these are the other one's, of one they are its own.
TEST(ReplicasOfWorkers, OneThatFailsEndsThoseThatWaitForItElsewhere) {
  for (const int workers : {1, 2, 4}) {
    ReplicasOfWorkers replicas(workers);
    GraphBuilder graph("fails");
    graph.Input("x", DType::kInt64, {-1});
    graph.Input("replica", DType::kInt64, {});
    const std::string two = graph.Constant("two", Tensor::FromVector<float>({100, 200}, Shape{2}));
    const std::string picked = graph.Op("Gather", {two, "replica"}, {IntAttribute("axis", 0)});
    const ProgramHandle program = replicas.Program(
        graph,
        graph.Op("AllReduce", {picked}, {StringAttribute("reduction", "sum")}, kCohortDomain));
    const absl::Status failed = replicas.Step(program).status();
    EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
    EXPECT_THAT(std::string(failed.message()),
                AllOf(testing::ContainsRegex("replica [23]: node"), HasSubstr("Gather"),
                      Not(HasSubstr("AllReduce"))));
    EXPECT_EQ(replicas.Variable(), 0);
  }
}

}  // namespace
}  // namespace cohort
