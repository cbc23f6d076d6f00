// Dynamic tables of which every worker has a copy: whatever the table's policy decides, it decides
// the same in all copies, and in one that a worker was given when it came back. Expectations: the
// other workers' copies, bit for bit, and what follows from the keys alone where all copies could
// have gone wrong together.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
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

constexpr int kWorkers = 3;
constexpr int64_t kBatch = 9;
constexpr int64_t kSteps = 60;
constexpr uint64_t kKeys = 60;
// Of which a stripe of the least limit has room for one.
constexpr int64_t kWideRow = 50'000;

proto::Program SumProgram(int64_t width) {
  GraphBuilder graph("sum");
  const std::string ids = graph.Input("ids", DType::kInt64, {-1});
  const std::string table = graph.Input("table", DType::kFloat32, {-1, width}, "rows");
  const std::string sum =
      graph.Op("ReduceSum", {graph.Op("Gather", {table, ids})}, {IntAttribute("keepdims", 0)});
  graph.Output(sum);
  const auto model = graph.Finish();
  COHORT_CHECK(model.ok(), "a test's model is valid");
  const auto gradients = AddGradients(*model, sum, {"table"});
  COHORT_CHECK(gradients.ok(), "a gradient of a sum");
  proto::InputBinding keys = FromBatch(0);
  keys.set_rows_of("table");
  proto::OutputBinding fetched = ToFetch();
  fetched.set_of_replicas(proto::SUM_OF_REPLICAS);
  auto program = BindProgram("sum", gradients->model,
                             {{{ids, keys}, {table, FromVariable("table")}},
                              {{sum, fetched}, {gradients->gradients[0], ToPush("table")}}});
  COHORT_CHECK(program.ok(), "a test's program is valid");
  program->mutable_replicas()->add_devices("cpu:0");
  program->mutable_replicas()->mutable_communication();
  return *program;
}

// Some keys often, some once or twice.
Tensor DrawKeys(SequenceRng& rng) {
  Tensor keys(DType::kInt64, Shape{kSteps * kBatch});
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    const uint64_t key = rng.Below(4) == 0 ? kKeys + rng.Below(300) : rng.Below(kKeys);
    keys.mutable_data<int64_t>()[i] = static_cast<int64_t>(Mix64(key));
  }
  return keys;
}

struct Policy {
  std::string name;
  proto::DynamicTable table;
  int64_t width = 1;
};

std::vector<Policy> Policies() {
  std::vector<Policy> policies(6);
  const char* const names[] = {"none", "admit_after", "ttl", "both", "lru", "lfu"};
  for (size_t i = 0; i < policies.size(); ++i) {
    policies[i].name = names[i];
    policies[i].table.set_row_dtype(static_cast<int32_t>(DType::kFloat32));
  }
  policies[1].table.set_admit_after(4);
  policies[2].table.set_ttl_ms(200);
  policies[3].table.set_admit_after(2);
  policies[3].table.set_ttl_ms(400);
  policies[3].table.set_admit_probability(0.7);
  for (const size_t evicts : {4, 5}) {
    policies[evicts].width = kWideRow;
    policies[evicts].table.set_max_bytes(size_t{8} << 20);
  }
  policies[5].table.set_evict_least_frequent(true);
  return policies;
}

// Lives on the test's thread.
class Trained {
 public:
  Trained(uint64_t seed, const Policy& policy) : cluster_(seed, 0, kWorkers), policy_(policy) {}
  ~Trained() {
    coordinator_.reset();
    cluster_.End();
  }

  // Kills so many workers on the way, one after the other; none are the last one.
  absl::Status Run(int kills) {
    ClusterCoordinator::Options options;
    options.attempts_max = options.quarantine_after = 1000;
    options.homes = Role::kWorker;
    options.mirrored = true;
    options.workers.min = 1;
    ASSIGN_OR_RETURN(coordinator_, cluster_.Connect(std::move(options)));
    VariableSpec spec;
    spec.name = "table";
    spec.shape = Shape{kKeyBuckets, policy_.width};
    spec.initializer.set_op("zeros");
    spec.aggregation = proto::AGGREGATION_SUM;
    spec.dynamic = policy_.table;
    ASSIGN_OR_RETURN(const Variable table, coordinator_->Scope(AssignAdd()).CreateVariable(spec));
    layout_ = table.layout();
    ASSIGN_OR_RETURN(const ProgramHandle sum, coordinator_->Register(SumProgram(policy_.width)));
    keys_ = DrawKeys(cluster_.sim().rng());
    proto::DatasetSpec batches;
    AddInline(batches, keys_);
    batches.add_transforms()->mutable_batch()->set_size(kBatch);
    const DatasetHandle data = coordinator_->CreatePerWorkerDataset(batches);
    for (int64_t step = 0; step < kSteps; ++step) {
      if (kills > 0 && step > 0 && step % (kSteps / (kills + 1)) == 0) KillOne();
      ScheduleOptions closure;
      SplitInput split{data, {}};
      split.position.set_element(step);
      closure.input = std::move(split);
      closure.step = closure.round.number = static_cast<uint64_t>(step) + 1;
      closure.gang = true;
      RETURN_IF_ERROR(coordinator_->Schedule(sum, std::move(closure)).status());
      cluster_.sim().RunFor(absl::Milliseconds(20));
    }
    return coordinator_->Join();
  }

  // Once all are in step: the rows of each copy.
  std::vector<std::map<int64_t, std::string>> Copies() {
    WaitForAll();
    std::set<int64_t> unique(keys_.span<int64_t>().begin(), keys_.span<int64_t>().end());
    const std::vector<int64_t> asked(unique.begin(), unique.end());
    std::vector<std::map<int64_t, std::string>> copies(kWorkers);
    for (int worker = 0; worker < kWorkers; ++worker) {
      proto::VariableLayout copy = layout_;
      copy.set_mirrored(false);  // of this home
      for (proto::SliceHome& slice : *copy.mutable_slices()) {
        slice.set_ps(static_cast<uint32_t>(worker));
      }
      const absl::StatusOr<Tensor> rows = coordinator_->parts().ps->ReadRows(copy, asked);
      EXPECT_TRUE(rows.ok()) << rows.status();
      const size_t bytes = static_cast<size_t>(policy_.width) * sizeof(float);
      for (size_t i = 0; rows.ok() && i < asked.size(); ++i) {
        copies[static_cast<size_t>(worker)][asked[i]].assign(
            reinterpret_cast<const char*>(rows->raw()) + i * bytes, bytes);
      }
    }
    return copies;
  }

  proto::PsStatsResponse Stats() {
    const auto stats = coordinator_->parts().ps->Stats();
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats.value_or(proto::PsStatsResponse());
  }
  const Tensor& keys() const { return keys_; }

 private:
  // Until every worker has a copy that is in step.
  void WaitForAll() {
    for (int i = 0; i < 3000 && coordinator_->parts().cluster->num_ps() < kWorkers; ++i) {
      cluster_.sim().RunFor(absl::Milliseconds(20));
    }
  }
  void KillOne() {
    WaitForAll();
    const TaskId victim{Role::kWorker, static_cast<int>(killed_++ % kWorkers)};
    cluster_.tasks().Kill(victim);
    cluster_.tasks().Start(victim);
  }

  SimCluster cluster_;
  const Policy policy_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  proto::VariableLayout layout_;
  Tensor keys_;
  int killed_ = 0;
};

size_t NotZero(const std::map<int64_t, std::string>& copy) {
  size_t count = 0;
  for (const auto& [key, row] : copy) {
    count += row.find_first_not_of('\0') != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(MirroredTableSim, CopiesAreTheSameBitsUnderEveryPolicyWhoeverDies) {
  for (const Policy& policy : Policies()) {
    for (uint64_t seed = 1; seed <= (policy.width > 1 ? 2u : 4u); ++seed) {
      SCOPED_TRACE(absl::StrCat(policy.name, " ", Replay("sim_test", seed, "MirroredTableSim.*")));
      const int kills = static_cast<int>(seed) - 1;
      Trained trained(seed, policy);
      const absl::Status run = trained.Run(kills);
      ASSERT_TRUE(run.ok()) << run;
      const auto copies = trained.Copies();
      for (int worker = 1; worker < kWorkers; ++worker) {
        ASSERT_EQ(copies[static_cast<size_t>(worker)] == copies[0], true)
            << "worker:" << worker << " has " << NotZero(copies[static_cast<size_t>(worker)])
            << " rows that were trained, worker:0 has " << NotZero(copies[0]);
      }
      const proto::DynamicTableUse use = trained.Stats().mirrored_tables();
      if (policy.table.ttl_ms() > 0) {
        EXPECT_GT(use.expired_rows(), 0u);
      }
      if (policy.table.max_bytes() > 0) {
        EXPECT_GT(use.evicted_rows(), 0u);
      }
      if (policy.name == "none") {
        EXPECT_EQ(use.rows(), copies[0].size()) << "each key once, not once a copy";
      }
      if (policy.name != "admit_after") continue;
      std::map<int64_t, int> steps_of;  // that name the key
      for (int64_t step = 0; step < kSteps; ++step) {
        const absl::Span<const int64_t> batch =
            trained.keys().span<int64_t>().subspan(static_cast<size_t>(step * kBatch), kBatch);
        for (const int64_t key : std::set<int64_t>(batch.begin(), batch.end())) ++steps_of[key];
      }
      uint64_t admitted = 0;
      for (const auto& [key, steps] : steps_of) admitted += steps >= 4 ? 1 : 0;
      EXPECT_EQ(use.rows(), admitted);
    }
  }
}

}  // namespace
}  // namespace cohort
