// Replicas of several workers that meet inside a program (ReplicaContext.all_gather, all_reduce).
// The expectation is arithmetic, and the same program with as many replicas on one worker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "common/program/bind.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/replica_values.h"
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
  explicit ReplicasOfWorkers(int workers, int64_t batch = 5)
      : on_each_(kReplicas / workers), cluster_(1, 0, workers) {
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
    data.add_transforms()->mutable_batch()->set_size(batch);
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
    return Register(std::move(program));
  }

  ProgramHandle Register(proto::Program program) {
    for (int i = 0; i < on_each_; ++i) {
      program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
    }
    program.mutable_replicas()->mutable_communication();
    const auto registered = coordinator_->Register(program);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return *registered;
  }

  // Fetches each output, as it says, and adds what each replica is given to v.
  ProgramHandle Program(GraphBuilder& graph,
                        const std::map<std::string, proto::FetchOfReplicas>& outputs) {
    Bindings bindings;
    bindings.inputs["x"] = FromBatch(0);
    bindings.inputs["given"] = FromArgumentOfReplica(0);
    const std::string pushed = graph.Op("Identity", {"given"});
    graph.Output(pushed);
    bindings.outputs[pushed] = ToPush("v");
    for (const auto& [output, of_replicas] : outputs) {
      bindings.outputs[output] = ToFetch();
      bindings.outputs[output].set_of_replicas(of_replicas);
    }
    return Register(*BindProgram("fetches", *graph.Finish(), bindings));
  }

  absl::StatusOr<float> Step(const ProgramHandle& program) {
    const auto fetched = Run(program, {});
    if (!fetched.ok()) return fetched.status();
    return *(*fetched)[0].data<float>();
  }
  absl::StatusOr<std::vector<Tensor>> Run(const ProgramHandle& program,
                                          std::vector<Argument> arguments) {
    return Run(program, std::move(arguments), ++round_);
  }
  // It reads what the next step will.
  absl::StatusOr<std::vector<Tensor>> Evaluate(const ProgramHandle& program) {
    return Run(program, {}, round_ + 1);
  }
  float Variable() { return *coordinator_->Read(*v_)->data<float>(); }

 private:
  absl::StatusOr<std::vector<Tensor>> Run(const ProgramHandle& program,
                                          std::vector<Argument> arguments, uint64_t round) {
    ScheduleOptions closure;
    closure.input = SplitInput{data_, {}};
    closure.gang = true;
    closure.round.number = round;
    closure.arguments = std::move(arguments);
    const auto result = coordinator_->Schedule(program, std::move(closure));
    if (!result.ok()) return result.status();
    if (absl::Status joined = coordinator_->Join(); !joined.ok()) return joined;
    return coordinator_->Fetch(*result);
  }

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

// Strategy.run with a value of each replica, whose results are reduced and gathered. 1, 2, 3, 4, 5
// are shared out as 2, 1, 1 and 1, and the mean counts examples; 1 and 2 are the batch of two, who
// alone run.
TEST(ReplicasOfWorkers, EachIsGivenItsOwnValueAndWhatEachFetchesIsGathered) {
  const auto given = ValuesFromFunction(kReplicas, [](const ValueContext& context) {
    return Tensor::Scalar(
        static_cast<float>(10 * context.replica_id_in_sync_group + context.num_replicas_in_sync));
  });
  ASSERT_TRUE(given.ok()) << given.status();
  for (const int workers : {1, 2, 4}) {
    for (const int64_t batch : {5, 2}) {
      SCOPED_TRACE(absl::StrCat(workers, " workers, ", batch, " examples"));
      ReplicasOfWorkers replicas(workers, batch);
      GraphBuilder graph("fetches");
      graph.Input("x", DType::kInt64, {-1});
      graph.Input("given", DType::kFloat32, {});
      const std::string x = graph.Op("Identity", {"x"});
      const std::string own = graph.Op("Identity", {"given"});
      const std::string squares = graph.Op("Mul", {"x", "x"});
      for (const std::string& output : {x, own, squares}) graph.Output(output);
      const ProgramHandle program = replicas.Program(graph, {{x, proto::EACH_REPLICA},
                                                             {own, proto::EACH_REPLICA},
                                                             {squares, proto::ROWS_OF_REPLICAS}});
      const auto fetched = replicas.Run(program, {*given});
      ASSERT_TRUE(fetched.ok()) << fetched.status();
      const size_t ran = batch == 5 ? 4 : 2;
      ASSERT_EQ(fetched->size(), 2 * ran + 1);
      const absl::Span<const Tensor> each = absl::MakeConstSpan(*fetched).first(ran);
      EXPECT_EQ(*ReduceReplicas(ReplicaReduce::kSum, each, {0})->data<int64_t>(),
                batch == 5 ? 15 : 3);
      EXPECT_EQ(*ReduceReplicas(ReplicaReduce::kMean, each, {0})->data<int64_t>(),
                batch == 5 ? 3 : 1)
          << "of whole numbers, cut";
      EXPECT_EQ(GatherReplicas(each, 0)->num_elements(), batch);
      for (size_t replica = 0; replica < ran; ++replica) {
        EXPECT_EQ(*(*fetched)[ran + replica].data<float>(), static_cast<float>(10 * replica + 4));
      }
      for (int64_t i = 0; i < batch; ++i) {
        const auto place = static_cast<size_t>(i);
        EXPECT_EQ(GatherReplicas(each, 0)->span<int64_t>()[place], i + 1);
        EXPECT_EQ(fetched->back().span<int64_t>()[place], (i + 1) * (i + 1));
      }
      EXPECT_EQ(replicas.Variable(), batch == 5 ? 4 + 14 + 24 + 34 : 4 + 14);
      const auto too_few = replicas.Run(program, {given->Rows(0, 3)});
      EXPECT_THAT(
          std::string(too_few.status().message()),
          HasSubstr("argument 0 is float32[3], and 4 replicas run, each of which gets a row"));
    }
  }
}

// Of an evaluation in a custom loop: it changes nothing, and reads what the step behind it reads.
TEST(ReplicasOfWorkers, AStepThatChangesNothingIsReducedOverAll) {
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat(workers, " workers"));
    ReplicasOfWorkers replicas(workers);
    GraphBuilder step("step");
    step.Input("x", DType::kInt64, {-1});
    step.Input("replica", DType::kInt64, {});
    const ProgramHandle update = replicas.Program(step, Total(step, AsFloat(step, "x")));
    GraphBuilder graph("evaluate");
    graph.Input("x", DType::kInt64, {-1});
    graph.Input("v", DType::kFloat32, {});
    const std::string all = graph.Op("AllReduce", {Total(graph, AsFloat(graph, "x"))},
                                     {StringAttribute("reduction", "sum")}, kCohortDomain);
    const std::string own = Total(graph, "x");
    const std::string v = graph.Op("Identity", {"v"});
    Bindings bindings;
    bindings.inputs["x"] = FromBatch(0);
    bindings.inputs["v"] = FromVariable("v");
    for (const std::string& output : {all, own, v}) {
      graph.Output(output);
      bindings.outputs[output] = ToFetch();
      bindings.outputs[output].set_of_replicas(proto::EACH_REPLICA);
    }
    const ProgramHandle evaluate =
        replicas.Register(*BindProgram("evaluate", *graph.Finish(), bindings));
    for (int round = 0; round < 3; ++round) {
      for (int again = 0; again < 2; ++again) {
        const auto fetched = replicas.Evaluate(evaluate);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        ASSERT_EQ(fetched->size(), 3u * kReplicas);
        for (size_t replica = 0; replica < kReplicas; ++replica) {
          EXPECT_EQ(*(*fetched)[replica].data<float>(), 15);
          EXPECT_EQ(*(*fetched)[2 * kReplicas + replica].data<float>(),
                    static_cast<float>(15 * round));
        }
        const absl::Span<const Tensor> each =
            absl::MakeConstSpan(*fetched).subspan(kReplicas, kReplicas);
        EXPECT_EQ(*ReduceReplicas(ReplicaReduce::kSum, each, {})->data<int64_t>(), 15);
      }
      const auto sum = replicas.Step(update);
      ASSERT_TRUE(sum.ok()) << sum.status();
    }
    EXPECT_EQ(replicas.Variable(), 45);
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
