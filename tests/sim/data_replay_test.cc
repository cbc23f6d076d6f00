// What a closure has read of a per-worker iterator it reads again when a restore takes its effect
// back, whichever worker runs it: the variable is the sum of what the results told.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

constexpr int kBatch = 4;
constexpr int kClosures = 60;

// Pushes the sum of its batch of numbers to the float scalar "sum", and fetches the batch.
proto::Program SumProgram() {
  GraphBuilder graph("sum");
  const std::string batch = graph.Input("batch", DType::kInt64, {-1});
  const std::string numbers =
      graph.Op("Cast", {batch}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))});
  const std::string sum = graph.Op("ReduceSum", {numbers}, {IntAttribute("keepdims", 0)});
  const std::string same = graph.Op("Identity", {batch});
  graph.Output(sum);
  graph.Output(same);
  const auto model = graph.Finish();
  COHORT_CHECK(model.ok(), "a test's model is valid");
  const auto program = BindProgram(
      "sum", *model, {{{batch, FromBatch(0)}}, {{sum, ToPush("sum")}, {same, ToFetch()}}});
  COHORT_CHECK(program.ok(), "a test's program is valid");
  return *program;
}

class DataReplay : public testing::Test {
 protected:
  void SetUp() override {
    ClusterCoordinator::Options options;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Hours(1);  // nothing is durable
    auto connected = cluster.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    VariableSpec spec;
    spec.name = "sum";
    spec.initializer.set_op("zeros");
    auto made = coordinator->Scope(AssignAdd()).CreateVariable(spec);
    ASSERT_TRUE(made.ok()) << made.status();
    sum = std::make_unique<Variable>(*made);
    ASSERT_TRUE(coordinator->ResumeState().ok());
    auto registered = coordinator->Register(SumProgram());
    ASSERT_TRUE(registered.ok()) << registered.status();
    program = *registered;
  }

  // The sum of what the closures say that they have read, some of them before a ps was lost.
  float RunWithALoss(const proto::DatasetSpec& spec) {
    ScheduleOptions options;
    options.input = coordinator->MakeIterator(coordinator->CreatePerWorkerDataset(spec));
    std::vector<RemoteValue> results;
    for (int i = 0; i < kClosures; ++i) {
      auto result = coordinator->Schedule(program, options);
      EXPECT_TRUE(result.ok()) << result.status();
      results.push_back(*std::move(result));
    }
    EXPECT_TRUE(coordinator->Fetch(results[kClosures / 2]).ok());
    cluster.tasks().Kill({Role::kPs, 0});
    cluster.tasks().Kill({Role::kWorker, 1});
    cluster.tasks().Start({Role::kPs, 0});
    const absl::Status joined = coordinator->Join();
    EXPECT_TRUE(joined.ok()) << joined;
    EXPECT_GT(coordinator->stats().replayed, 0u) << "nothing was taken back";
    float told = 0;
    for (const RemoteValue& result : results) {
      const auto fetched = coordinator->Fetch(result);
      EXPECT_TRUE(fetched.ok()) << fetched.status();
      if (!fetched.ok()) continue;
      const absl::Span<const int64_t> batch = fetched->at(0).span<int64_t>();
      told += static_cast<float>(std::accumulate(batch.begin(), batch.end(), int64_t{0}));
    }
    return told;
  }

  float Sum() {
    const auto value = coordinator->Read(*sum);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value->data<float>() : -1;
  }

  static proto::DatasetSpec Numbers() {
    proto::DatasetSpec spec;
    spec.mutable_source()->mutable_range()->set_end(1000);
    return spec;
  }
  static void Batch(proto::DatasetSpec& spec) {
    spec.add_transforms()->mutable_shuffle()->set_buffer_size(1000);
    spec.add_transforms()->set_repeat(-1);
    spec.add_transforms()->mutable_batch()->set_size(kBatch);
    spec.add_transforms()->set_prefetch(2);
  }

  SimCluster cluster{31, /*ps=*/1, /*workers=*/2};
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> sum;
  ProgramHandle program;
};

TEST_F(DataReplay, EachClosureReadsAgainWhatItHasRead) {
  proto::DatasetSpec spec = Numbers();
  Batch(spec);
  const float told = RunWithALoss(spec);
  EXPECT_EQ(Sum(), told);
}

// A worker that is gone has read of a part of the data that no other worker sees.
TEST_F(DataReplay, AlsoOfTheShardOfAnotherWorker) {
  proto::DatasetSpec spec = Numbers();
  spec.add_transforms()->mutable_shard()->set_num_shards(2);
  spec.mutable_transforms(0)->mutable_shard()->set_by_worker(true);
  Batch(spec);
  const float told = RunWithALoss(spec);
  EXPECT_EQ(Sum(), told);
}

}  // namespace
}  // namespace cohort
