// The operations of TensorFlow's ShardedVariable on a simulated cluster. Expectations: TensorFlow
// itself, tests/golden/sharded_variable/make.py.

#include "coordinator/api/sharded_variable.h"

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/strategy/partitioner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Golden(const std::string& name) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/sharded_variable/" + name);
  json golden = json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(golden.is_discarded()) << name;
  return golden;
}

template <typename T>
Tensor TensorOf(const json& plain) {
  std::vector<T> values;
  for (const json& value : plain["values"]) values.push_back(value.get<T>());
  return Tensor::FromVector(values, Shape(plain["shape"].get<std::vector<int64_t>>()));
}

Tensor TensorOf(DType dtype, const json& plain) {
  if (dtype == DType::kInt32) return TensorOf<int32_t>(plain);
  if (dtype == DType::kInt64) return TensorOf<int64_t>(plain);
  return TensorOf<float>(plain);
}

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, Shape{static_cast<int64_t>(ids.size())});
}

// As the golden files have it; numbers as they print.
json Plain(const Tensor& tensor) {
  json values = json::array();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.dtype() == DType::kInt32) values.push_back(tensor.data<int32_t>()[i]);
    if (tensor.dtype() == DType::kInt64) values.push_back(tensor.data<int64_t>()[i]);
    if (tensor.dtype() == DType::kFloat32) values.push_back(tensor.data<float>()[i]);
  }
  const auto dims = tensor.shape().dims();
  return {{"shape", std::vector<int64_t>(dims.begin(), dims.end())}, {"values", values}};
}

class ShardedVariableTest : public testing::Test {
 protected:
  void Connect(int shards, const std::string& recovery_directory = "") {
    ClusterCoordinator::Options options;
    options.partitioner = *MakePartitioner(FixedShardsPartitionerSpec{shards});
    options.recovery_directory = recovery_directory;
    options.call_timeout = absl::Seconds(2);
    coordinator.reset();
    cluster = std::make_unique<SimCluster>(31, 2, 1);  // servers that hold nothing
    auto connected = cluster->Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
  }
  // 7 rows of 3, element (r, c) is 10 r + c.
  ShardedVariable Make(DType dtype, const std::string& name = "v") {
    VariableSpec spec;
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = Shape{7, 3};
    spec.initializer.set_op("zeros");
    const auto made = coordinator->Scope(AssignAdd()).CreateVariable(spec);
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(coordinator->ResumeState().ok());
    ShardedVariable variable(*coordinator, *made);
    EXPECT_TRUE(variable.Assign(TensorOf(dtype, Start())).ok());
    return variable;
  }
  static json Start() {
    json values = json::array();
    for (int i = 0; i < 21; ++i) values.push_back(i / 3 * 10 + i % 3);
    return {{"shape", {7, 3}}, {"values", values}};
  }

  std::unique_ptr<SimCluster> cluster;
  std::unique_ptr<ClusterCoordinator> coordinator;
};

std::vector<SliceItem> ItemsOf(const json& spec) {
  const auto number = [](const json& value) {
    return value.is_null() ? std::nullopt : std::optional<int64_t>(value.get<int64_t>());
  };
  std::vector<SliceItem> items;
  for (const json& item : spec) {
    if (item == "...") {
      items.push_back(Ellipsis{});
    } else if (item == "newaxis") {
      items.push_back(NewAxis{});
    } else if (item.contains("index")) {
      items.push_back(Index{item["index"].get<int64_t>()});
    } else {
      const json& range = item["slice"];
      items.push_back(Range{number(range[0]), number(range[1]), number(range[2])});
    }
  }
  return items;
}

TEST_F(ShardedVariableTest, SlicesAreThoseOfATensor) {
  const json golden = Golden("reads.json");
  for (const int shards : {1, 3, 7}) {
    Connect(shards);
    const ShardedVariable variable = Make(DType::kFloat32);
    int errors = 0;
    for (const json& wanted : golden["slices"]) {
      const auto slice = variable.Slice(ItemsOf(wanted["spec"]));
      ASSERT_EQ(slice.ok(), !wanted.contains("error")) << wanted << slice.status();
      if (!slice.ok()) {
        EXPECT_THAT(std::string(slice.status().message()), HasSubstr(variable.variable().name()));
        ++errors;
        continue;
      }
      ASSERT_EQ(Plain(*slice), json({{"shape", wanted["shape"]}, {"values", wanted["values"]}}))
          << wanted["spec"];
    }
    EXPECT_EQ(errors, 5);
  }
}

TEST_F(ShardedVariableTest, RowsComeInTheOrderOfTheRequest) {
  Connect(3);
  const ShardedVariable variable = Make(DType::kFloat32);
  const json golden = Golden("reads.json");
  const auto expect = [](const absl::StatusOr<Tensor>& read, const json& wanted) {
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(Plain(*read), json({{"shape", wanted["shape"]}, {"values", wanted["values"]}}));
  };
  for (const json& wanted : golden["lookups"]) {
    expect(variable.SparseRead(TensorOf<int64_t>(wanted["ids"])), wanted);
    expect(variable.SparseRead(TensorOf<int32_t>(wanted["ids"])), wanted);
  }
  for (const json& wanted : golden["gather_nd"]) {
    expect(variable.GatherNd(TensorOf<int64_t>(wanted["indices"])), wanted);
  }
  for (const json& wanted : golden["masks"]) {
    Tensor mask(DType::kBool, Shape{7});
    for (int i = 0; i < 7; ++i) mask.mutable_data<bool>()[i] = wanted["mask"][i].get<bool>();
    expect(variable.BooleanMask(mask), wanted);
  }
}

absl::Status RunStep(const ShardedVariable& variable, const json& step, DType dtype) {
  const Tensor operand = TensorOf(dtype, step["operand"]);
  const std::string op = step["op"];
  if (op == "assign") return variable.Assign(operand);
  if (op == "assign_add") return variable.AssignAdd(operand);
  if (op == "assign_sub") return variable.AssignSub(operand);
  using Scatter = absl::Status (ShardedVariable::*)(const Tensor&, const Tensor&) const;
  const std::map<std::string, Scatter> scatters = {
      {"scatter_add", &ShardedVariable::ScatterAdd},
      {"scatter_sub", &ShardedVariable::ScatterSub},
      {"scatter_mul", &ShardedVariable::ScatterMul},
      {"scatter_div", &ShardedVariable::ScatterDiv},
      {"scatter_min", &ShardedVariable::ScatterMin},
      {"scatter_max", &ShardedVariable::ScatterMax},
      {"scatter_update", &ShardedVariable::ScatterUpdate},
      {"batch_scatter_update", &ShardedVariable::BatchScatterUpdate}};
  return (variable.*scatters.at(op))(Ids(step["ids"].get<std::vector<int64_t>>()), operand);
}

TEST_F(ShardedVariableTest, ChangesAreTensorFlows) {
  const json golden = Golden("changes.json");
  for (const int shards : {1, 3}) {
    Connect(shards);
    for (const json& sequence : golden) {
      const std::string type = sequence["dtype"];
      const DType dtype = type == "int32"   ? DType::kInt32
                          : type == "int64" ? DType::kInt64
                                            : DType::kFloat32;
      const ShardedVariable variable = Make(dtype, type);
      for (const json& step : sequence["steps"]) {
        const absl::Status changed = RunStep(variable, step, dtype);
        ASSERT_TRUE(changed.ok()) << changed;
        const json after = Plain(*variable.ConvertToTensor())["values"];
        ASSERT_EQ(after.size(), step["after"].size());
        for (size_t i = 0; i < after.size(); ++i) {
          // The same bits: as floats, which the golden file has in decimals.
          ASSERT_EQ(after[i].get<float>(), step["after"][i].get<float>())
              << type << " " << step["op"] << " element " << i;
        }
      }
    }
  }
}

TEST_F(ShardedVariableTest, WhatDoesNotFitChangesNothingAndIsNamed) {
  Connect(3);
  const ShardedVariable floats = Make(DType::kFloat32, "floats");
  const ShardedVariable whole = Make(DType::kInt32, "whole");
  const Tensor two_rows = Tensor::Zeros(DType::kFloat32, Shape{2, 3});
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(floats.ScatterUpdate(Ids({0, 7}), two_rows)),
              HasSubstr("variable floats has 7 rows: there is no id 7"));
  EXPECT_THAT(message(floats.ScatterUpdate(Ids({0, -1}), two_rows)), HasSubstr("no id -1"));
  EXPECT_THAT(message(floats.SparseRead(Ids({3, 9})).status()), HasSubstr("no id 9"));
  EXPECT_THAT(message(floats.ScatterUpdate(Ids({0, 1, 2}), two_rows)),
              HasSubstr("takes float32[3,3], the value is float32[2,3]"));
  EXPECT_THAT(message(floats.Assign(two_rows)), HasSubstr("takes float32[7,3]"));
  EXPECT_THAT(message(whole.ScatterDiv(
                  Ids({6, 0}), Tensor::FromVector<int32_t>({1, 1, 1, 1, 0, 1}, Shape{2, 3}))),
              HasSubstr("variable whole: a whole number is divided by 0"));
  EXPECT_THAT(message(floats.GatherNd(Tensor::FromVector<int64_t>({1, 3}, Shape{1, 2})).status()),
              HasSubstr("no index 3 of axis 1"));
  EXPECT_EQ(Plain(*floats.ConvertToTensor()), Start());
  EXPECT_EQ(Plain(*whole.ConvertToTensor()), Start());
}

TEST_F(ShardedVariableTest, ALostAnswerDoublesNothing) {
  Connect(3);
  const ShardedVariable variable = Make(DType::kFloat32);
  Tensor ones = Tensor::Zeros(DType::kFloat32, Shape{7, 3});
  for (int i = 0; i < 21; ++i) ones.mutable_data<float>()[i] = 1;
  FaultPlan faults;
  faults.lose_response = 0.2;
  faults.duplicate_request = 0.3;
  cluster->network().SetFaults(faults);
  int done = 0;
  int lost = 0;  // whether it was made is not known
  for (int i = 0; i < 40; ++i) (variable.AssignAdd(ones).ok() ? done : lost) += 1;
  cluster->network().SetFaults({});
  const float sum = variable.ConvertToTensor()->data<float>()[0];
  EXPECT_GE(sum, static_cast<float>(done));
  EXPECT_LE(sum, static_cast<float>(done + lost));
  EXPECT_GT(done, 30);
}

TEST_F(ShardedVariableTest, ARecoveryNeitherLosesNorDoublesAChange) {
  Connect(3, "/recovery");
  const ShardedVariable variable = Make(DType::kInt64);
  Tensor ones = Tensor::Zeros(DType::kInt64, Shape{7, 3});
  for (int i = 0; i < 21; ++i) ones.mutable_data<int64_t>()[i] = 1;
  json before = Plain(*variable.ConvertToTensor());
  for (int i = 0; i < 12; ++i) {
    // Dies somewhere between the first request and the checkpoint after the change.
    const absl::Time when = cluster->sim().Now() + absl::Microseconds(400 * i);
    cluster->sim().CallAt(when, [&, i] {
      cluster->tasks().Kill({Role::kPs, i % 2});
      cluster->tasks().Start({Role::kPs, i % 2});
    });
    const absl::Status added = variable.AssignAdd(ones);
    ASSERT_TRUE(added.ok()) << added;
    cluster->sim().RunFor(absl::Seconds(20));
    for (json& value : before["values"]) value = value.get<int64_t>() + 1;
    ASSERT_EQ(Plain(*variable.ConvertToTensor()), before) << "after change " << i;
  }
}

}  // namespace
}  // namespace cohort
