// Keys that closures push to a dynamic table while messages are lost and repeated and processes
// die: each key's row ends as the number of times that the data names the key.

#include <gtest/gtest.h>

#include <map>

#include "common/program/bind.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/api/coordinator_parts.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/inline_tensors.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_programs.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

constexpr int64_t kClosures = 400;
constexpr int64_t kBatch = 12;
constexpr uint64_t kKeys = 500;

// The gradient of the sum of what is looked up: how often the batch names each row.
proto::Program CountProgram() {
  GraphBuilder graph("count");
  const std::string ids = graph.Input("ids", DType::kInt64, {-1});
  const std::string table = graph.Input("table", DType::kFloat32, {-1, 1}, "rows");
  const std::string sum =
      graph.Op("ReduceSum", {graph.Op("Gather", {table, ids})}, {IntAttribute("keepdims", 0)});
  graph.Output(sum);
  const auto model = graph.Finish();
  COHORT_CHECK(model.ok(), "a test's model is valid");
  const auto gradients = AddGradients(*model, sum, {"table"});
  COHORT_CHECK(gradients.ok(), "a gradient of a sum");
  proto::InputBinding keys = FromBatch(0);
  keys.set_rows_of("table");
  const auto program =
      BindProgram("count", gradients->model,
                  {{{ids, keys}, {table, FromVariable("table")}},
                   {{sum, ToFetch()}, {gradients->gradients[0], ToPush("table")}}});
  COHORT_CHECK(program.ok(), "a test's program is valid");
  return *program;
}

// Any of the 2^64, some of them often.
Tensor DrawKeys(SequenceRng& rng) {
  Tensor keys(DType::kInt64, Shape{kClosures * kBatch});
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    keys.mutable_data<int64_t>()[i] = static_cast<int64_t>(Mix64(rng.Below(1 + rng.Below(kKeys))));
  }
  return keys;
}

proto::DatasetSpec BatchesOf(const Tensor& keys) {
  proto::DatasetSpec spec;
  AddInline(spec, keys);
  spec.add_transforms()->mutable_batch()->set_size(kBatch);
  return spec;
}

struct Losses {
  int workers = 0;
  int ps = 0;
  FaultPlan faults;
};

class DynamicTableSim : public testing::Test {
 protected:
  // Lives on the test's thread.
  struct Run {
    std::map<int64_t, float> counted;
    std::map<int64_t, float> expected;
    uint64_t rows = 0;
    uint64_t replayed = 0;
  };

  static void KillSome(SimCluster& cluster, Role role, int kills) {
    const auto tasks = static_cast<uint64_t>(cluster.tasks().spec().Indices(role).size());
    for (int i = 0; i < kills; ++i) {
      const auto after = static_cast<int64_t>(1 + cluster.sim().rng().Below(40));
      const TaskId victim{role, static_cast<int>(cluster.sim().rng().Below(tasks))};
      cluster.sim().CallAt(cluster.sim().Now() + absl::Milliseconds(after), [&cluster, victim] {
        cluster.tasks().Kill(victim);
        cluster.tasks().Start(victim);
      });
    }
  }

  static absl::StatusOr<Run> CountKeys(SimCluster& cluster, const Losses& losses) {
    ClusterCoordinator::Options options;
    options.attempts_max = options.quarantine_after = 1000;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(60);
    options.checkpoint_chunk_bytes = 999;
    ASSIGN_OR_RETURN(const auto coordinator, cluster.Connect(std::move(options)));
    VariableSpec spec;
    spec.name = "table";
    spec.shape = Shape{kKeyBuckets, 1};
    spec.initializer.set_op("zeros");
    spec.dynamic.emplace().set_row_dtype(static_cast<int32_t>(DType::kFloat32));
    ASSIGN_OR_RETURN(const Variable table, coordinator->Scope(AssignAdd()).CreateVariable(spec));
    ASSIGN_OR_RETURN(const ProgramHandle count, coordinator->Register(CountProgram()));
    RETURN_IF_ERROR(coordinator->ResumeState().status());
    const Tensor keys = DrawKeys(cluster.sim().rng());
    const DatasetHandle data = coordinator->CreatePerWorkerDataset(BatchesOf(keys));
    cluster.network().SetFaults(losses.faults);
    KillSome(cluster, Role::kWorker, losses.workers);
    KillSome(cluster, Role::kPs, losses.ps);
    for (int64_t i = 0; i < kClosures; ++i) {
      SplitInput split{data, {}};
      split.position.set_element(i);
      ScheduleOptions closure;
      closure.input = std::move(split);
      RETURN_IF_ERROR(coordinator->Schedule(count, std::move(closure)).status());
    }
    RETURN_IF_ERROR(coordinator->Join());
    cluster.network().SetFaults(FaultPlan());
    Run run;
    for (const int64_t key : keys.span<int64_t>()) run.expected[key] += 1;
    std::vector<int64_t> asked;
    for (const auto& [key, times] : run.expected) asked.push_back(key);
    ASSIGN_OR_RETURN(const Tensor rows, coordinator->parts().ps->ReadRows(table.layout(), asked));
    for (size_t i = 0; i < asked.size(); ++i) run.counted[asked[i]] = rows.data<float>()[i];
    ASSIGN_OR_RETURN(const proto::PsStatsResponse stats, coordinator->parts().ps->Stats());
    run.rows = stats.tables().rows();
    run.replayed = coordinator->stats().replayed;
    return run;
  }

  static void ExpectCounted(const absl::StatusOr<Run>& run) {
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->counted, run->expected);
    EXPECT_EQ(run->rows, run->expected.size());
  }
};

TEST_F(DynamicTableSim, CountsEveryKeyOverAnyNumberOfServers) {
  for (const int ps : {1, 3}) {
    SimCluster cluster(5, ps, 2);
    ExpectCounted(CountKeys(cluster, {}));
  }
}

TEST_F(DynamicTableSim, CountsEveryKeyOnceUnderFaultsAndWhenServersAndWorkersDie) {
  uint64_t replayed = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(Replay("sim_test", seed, "DynamicTableSim.*"));
    SimCluster cluster(seed, 3, 3, seed % 3 == 0 ? Disks::kPrivate : Disks::kShared);
    Losses losses{.workers = 2, .ps = 2, .faults = {}};
    losses.faults.lose_request = losses.faults.lose_response = 0.01;
    losses.faults.duplicate_request = 0.05;
    const auto run = CountKeys(cluster, losses);
    ASSERT_NO_FATAL_FAILURE(ExpectCounted(run));
    replayed += run->replayed;
  }
  EXPECT_GT(replayed, 0u) << "no loss took anything back";
}

}  // namespace
}  // namespace cohort
