#include "coordinator/strategy/placement.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/parameter_server_strategy.h"
#include "coordinator/strategy/plan_text.h"
#include "coordinator/strategy/variable_creator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

VariableSpec Variable(const std::string& name, const std::vector<int64_t>& dims) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = Shape(dims);
  spec.initializer.set_op("zeros");
  return spec;
}

// tests/golden/variable_sets/make.py says what the lines are.
ModelPrograms ReadModel(const std::string& name, const std::string& optimizer) {
  ModelPrograms model;
  model.update_rule.set_op(optimizer);
  std::ifstream file(absl::StrCat(COHORT_SOURCE_DIR, "/tests/golden/variable_sets/", name, ".txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string variable;
    bool trainable = false;
    words >> variable >> trainable;
    std::vector<int64_t> dims;
    for (int64_t dim = 0; words >> dim;) dims.push_back(dim);
    model.variables.push_back(Variable(variable, dims));
    model.variables.back().trainable = trainable;
  }
  EXPECT_GT(model.variables.size(), 50u) << name;
  return model;
}

std::vector<int> Servers(int count) {
  std::vector<int> ps(static_cast<size_t>(count));
  std::iota(ps.begin(), ps.end(), 0);
  return ps;
}

Plan MakePlan(const ModelPrograms& model, const std::string& placement, ClusterShape cluster) {
  StrategySpec spec;
  spec.placement = placement;
  const auto strategy = MakeStrategy(spec);
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  cluster.workers = {0};
  absl::StatusOr<Plan> plan = (*strategy)->MakePlan(model, cluster);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

double BytesRatio(const Plan& plan, const std::vector<int>& ps) {
  return MaxOverMean(plan.placement, ps, &PiecePlacement::bytes);
}

TEST(Placement, ByBytesServersHoldNearlyTheSame) {
  for (const std::string optimizer : {"sgd", "adagrad", "adam", "rowwise_adagrad"}) {
    for (const std::string name : {"resnet50_onnx", "bert_base", "wide_and_deep"}) {
      const ModelPrograms model = ReadModel(name, optimizer);
      for (int count = 2; count <= 16; ++count) {
        const std::vector<int> ps = Servers(count);
        EXPECT_LE(BytesRatio(MakePlan(model, "bytes", {.ps = ps}), ps), 1.15)
            << name << " with " << optimizer << " on " << count;
      }
    }
  }
}

// Axis 0 of Keras's kernels is their height. The largest with a height of 1 is one piece, and more
// than a fifteenth of the model.
TEST(Placement, ByBytesIsAsEvenAsPiecesAllow) {
  const ModelPrograms model = ReadModel("resnet50", "adagrad");
  for (int count = 2; count <= 16; ++count) {
    const std::vector<int> ps = Servers(count);
    const Plan plan = MakePlan(model, "bytes", {.ps = ps});
    int64_t largest = 0;
    int64_t sum = 0;
    for (const PiecePlacement& piece : plan.placement) {
      largest = std::max(largest, piece.bytes);
      sum += piece.bytes;
    }
    const double bound = static_cast<double>(largest * count) / static_cast<double>(sum);
    EXPECT_LE(BytesRatio(plan, ps), std::max(1.15, bound)) << count;
    EXPECT_EQ(bound > 1.15, count >= 15) << count;
  }
}

TEST(Placement, RoundRobinLooksAtNoBytes) {
  const std::vector<int> ps = Servers(5);
  const Plan plan = MakePlan(ReadModel("wide_and_deep", "adagrad"), "round_robin", {.ps = ps});
  EXPECT_GT(BytesRatio(plan, ps), 1.15);
  EXPECT_THAT(plan.placement[3].reason, HasSubstr("3 mod 5 = 3"));
}

ModelPrograms FourTables() {
  ModelPrograms model;
  for (const char* name : {"a", "b", "c", "d"}) {
    model.variables.push_back(Variable(name, {100, 4}));
  }
  model.update_rule.set_op("sgd");
  return model;
}

std::vector<uint32_t> Homes(const Plan& plan) { return HomesOf(plan.variables); }

TEST(Placement, SlotsCount) {
  ModelPrograms model = FourTables();
  model.update_rule.set_op("adam");  // 400 floats and two slots
  model.variables[0].trainable = false;
  const Plan plan = MakePlan(model, "bytes", {.ps = {0, 3}});
  EXPECT_EQ(plan.placement[0].bytes, 1600);
  EXPECT_EQ(plan.placement[1].bytes, 4800);
  EXPECT_THAT(Homes(plan), ElementsAre(3, 0, 3, 0));  // b to 0, c to 3, d to 0, a to 3
}

TEST(Placement, ByMeasuredLoadTheBusyOneIsAlone) {
  ClusterShape cluster{.ps = {0, 1}};
  const auto measured = [](int64_t bytes) { return std::vector<RowsLoad>{{{0, 100}, bytes}}; };
  cluster.loads = {{"a", measured(10)}, {"b", measured(20)}, {"c", measured(1000)}};
  const Plan plan = MakePlan(FourTables(), "measured", cluster);
  // c first, then b and a beside it; d, which nobody asked for, to where fewer bytes are.
  EXPECT_THAT(Homes(plan), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(plan.placement[0].reason, HasSubstr("ps:1 had the least load, 20"));
  EXPECT_THAT(plan.placement[3].reason, HasSubstr("ps:0 had the fewest bytes, 1600"));
}

TEST(Placement, AMeasurementCountsForTheRowsItIsOf) {
  ModelPrograms model;
  model.variables = {Variable("table", {131072, 4})};  // 2 MiB: eight shards of 256 KiB, two made
  model.update_rule.set_op("sgd");
  ClusterShape cluster{.ps = {0, 1}};
  cluster.loads["table"] = {{{0, 32768}, 400}, {{32768, 98304}, 90}};
  const Plan plan = MakePlan(model, "measured", cluster);
  ASSERT_EQ(plan.placement.size(), 2u);
  EXPECT_EQ(plan.placement[0].load, 400 + 30);
  EXPECT_EQ(plan.placement[1].load, 60);
}

TEST(Placement, WithoutAMeasurementItIsByBytes) {
  const ModelPrograms model = ReadModel("bert_base", "adam");
  const std::vector<int> ps = Servers(5);
  EXPECT_EQ(Homes(MakePlan(model, "measured", {.ps = ps})),
            Homes(MakePlan(model, "bytes", {.ps = ps})));
}

TEST(Placement, OneByOneGoesToWhoHasTheFewestBytes) {
  VariableCreator creator({0, 1}, nullptr, PlacementPolicy::kBytes);
  const auto home = [&](const char* name, int64_t rows, const VariableOptions& options = {}) {
    return creator.CreateVariable(Variable(name, {rows}), {}, options)->slices(0).ps();
  };
  EXPECT_EQ(home("a", 100), 0u);
  EXPECT_EQ(home("b", 10), 1u);
  EXPECT_EQ(home("c", 10), 1u);
  EXPECT_EQ(home("d", 100, {.colocate_with = "c"}), 1u);
  EXPECT_EQ(home("e", 1), 0u);
}

TEST(Placement, ByBytesTheUserMayForbidToCut) {
  ModelPrograms model = ReadModel("wide_and_deep", "sgd");
  StrategySpec spec;
  spec.placement = "bytes";
  spec.partitioner = FixedShardsPartitionerSpec{};
  const auto plan = (*MakeStrategy(spec))->MakePlan(model, {.ps = {0, 1}, .workers = {0}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->placement.size(), model.variables.size());
}

TEST(Placement, HomesOfBeforeAreTakenWhereTheyAllExist) {
  Plan plan = MakePlan(FourTables(), "bytes", {.ps = {0, 3}});
  PlaceAt({3, 3, 0, 0}, {0, 3}, absl::MakeSpan(plan.variables));
  EXPECT_THAT(HomesOf(plan.variables), ElementsAre(3, 3, 0, 0));
  PlaceAt({3, 3, 0, 1}, {0, 3}, absl::MakeSpan(plan.variables));  // no ps:1
  PlaceAt({0, 0, 0}, {0, 3}, absl::MakeSpan(plan.variables));     // of other slices
  EXPECT_THAT(HomesOf(plan.variables), ElementsAre(3, 3, 0, 0));
}

TEST(Placement, AnUnknownPolicyIsNamed) {
  EXPECT_THAT(PlacementPolicyFromName("random").status().message(), HasSubstr("'random'"));
}

// Its limit of memory counts where it has one; nothing moves it.
TEST(Placement, ADynamicTableStaysOnEveryServer) {
  ModelPrograms model;
  model.update_rule.set_op("sgd");
  for (const char* name : {"a", "table", "b"}) model.variables.push_back(Variable(name, {1000, 8}));
  model.variables[1].shape = Shape{kKeyBuckets, 8};
  model.variables[1].dynamic.emplace().set_max_bytes(5'000'000);
  for (const char* placement : {"round_robin", "bytes"}) {
    StrategySpec spec;
    spec.placement = placement;
    spec.partitioner = FixedShardsPartitionerSpec{1};
    const auto strategy = MakeStrategy(spec);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    ClusterShape cluster;
    cluster.ps = {2, 5};
    cluster.workers = {0};
    const auto plan = (*strategy)->MakePlan(model, cluster);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(HomesOf(plan->variables), ElementsAre(2, 2, 5, 5)) << placement;
    EXPECT_EQ(plan->placement[1].bytes, 5'000'000);
    const std::string text = PlanToText(*plan, spec, cluster, PlanFormat::kText);
    EXPECT_THAT(text,
                HasSubstr("table/part_1  keys of buckets 32768+32768, 5000000 bytes -> ps:5"));
  }
}

}  // namespace
}  // namespace cohort
