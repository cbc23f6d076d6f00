// A cluster that TF_CONFIG names sparsely: ps 0 and 3, workers 1 and 4. Expectations: TensorFlow's
// own round robin over the servers in index order, the real indices in every device name, and its
// worker index that counts the workers from 0.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/strategy/partitioner.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::ElementsAre;

std::vector<std::string> Devices(const Variable& variable) {
  std::vector<std::string> devices;
  for (const VariableComponent& component : variable.variables()) {
    devices.push_back(component.device);
  }
  return devices;
}

std::string DeviceOfPs(int index) {
  return absl::StrCat("/job:ps/replica:0/task:", index, "/device:CPU:0");
}

class SparseCluster : public testing::Test {
 protected:
  void SetUp() override {
    ClusterCoordinator::Options options;
    auto partitioner = MakePartitioner(FixedShardsPartitionerSpec{3});
    ASSERT_TRUE(partitioner.ok()) << partitioner.status();
    options.partitioner = *std::move(partitioner);
    auto connected = cluster.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
  }

  // Pieces 0 to 2 are its slices.
  Variable MakeTable() {
    VariableSpec spec;
    spec.name = "table";
    spec.shape = Shape{7, 2};
    spec.initializer.set_op("zeros");
    auto made = coordinator->Scope(AssignAdd()).CreateVariable(spec);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }

  std::vector<float> Values(const Variable& variable) {
    const auto value = coordinator->Read(variable);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    return {value->data<float>(), value->data<float>() + value->num_elements()};
  }

  SimCluster cluster{11, /*ps=*/{0, 3}, /*workers=*/{1, 4}};
  std::unique_ptr<ClusterCoordinator> coordinator;
};

TEST_F(SparseCluster, VariablesAreDealtOutToTheServersThatExist) {
  EXPECT_THAT(Devices(MakeTable()), ElementsAre(DeviceOfPs(0), DeviceOfPs(3), DeviceOfPs(0)));
  EXPECT_THAT(Devices(MakeCounter(*coordinator)->variable), ElementsAre(DeviceOfPs(3)));
}

TEST_F(SparseCluster, ClosuresCountOnceAlsoWhenAWorkerDies) {
  MakeTable();
  const auto counter = MakeCounter(*coordinator);  // on ps:3
  ASSERT_TRUE(counter.ok()) << counter.status();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(coordinator->Schedule(counter->increment, {}).ok());
    if (i == 20) cluster.tasks().Kill({Role::kWorker, 4});
  }
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_THAT(Values(counter->variable), ElementsAre(40.0f));
  EXPECT_GT(coordinator->stats().put_back, 0u);
}

TEST_F(SparseCluster, SlicesAreAssignedReadSavedAndRestored) {
  const Variable table = MakeTable();
  std::vector<float> rows(14);
  std::iota(rows.begin(), rows.end(), 1.0f);
  ASSERT_TRUE(coordinator->Assign(table, Tensor::FromVector<float>(rows, {7, 2})).ok());
  EXPECT_EQ(Values(table), rows);
  const World world = cluster.WorldOf("chief:0");
  CheckpointManager manager(world.files, *coordinator, {"/checkpoints", 1});
  const auto prefix = manager.Save({1, 1});
  ASSERT_TRUE(prefix.ok()) << prefix.status();
  const std::vector<float> zeros(14, 0.0f);
  ASSERT_TRUE(coordinator->Assign(table, Tensor::FromVector<float>(zeros, {7, 2})).ok());
  const auto restored = manager.Restore(*prefix, {table.layout()});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(Values(table), rows);
}

TEST_F(SparseCluster, WorkersAreCountedFromZero) {
  const auto program = coordinator->Register(WorkerIndexProgram());
  ASSERT_TRUE(program.ok()) << program.status();
  std::set<int64_t> seen;
  std::vector<RemoteValue> results;
  for (int i = 0; i < 20; ++i) results.push_back(*coordinator->Schedule(*program, {}));
  ASSERT_TRUE(coordinator->Join().ok());
  for (const RemoteValue& result : results) {
    seen.insert(*coordinator->Fetch(result)->at(0).data<int64_t>());
  }
  EXPECT_THAT(seen, ElementsAre(0, 1));
}

TEST_F(SparseCluster, ALostServerIsNamedByItsIndex) {
  MakeTable();
  cluster.tasks().Kill({Role::kPs, 3});
  absl::Status error;
  for (int second = 0; second < 60 && error.ok(); ++second) {
    cluster.sim().RunFor(absl::Seconds(1));
    error = coordinator->Join();
  }
  EXPECT_THAT(std::string(error.message()), testing::HasSubstr("ps:3"));
}

TEST_F(SparseCluster, ALayoutWithAHomeThatIsNotThereIsRefused) {
  proto::VariableLayout layout = MakeTable().layout();
  layout.set_name("other");
  for (auto& slice : *layout.mutable_slices()) slice.set_slice_id(slice.slice_id() + 100);
  layout.mutable_slices(1)->set_ps(1);  // the second server is not ps:1
  const absl::Status refused = coordinator->CreateVariables({layout});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "variable other: the cluster has no ps:1; its parameter servers have the indices 0, 3");
}

}  // namespace
}  // namespace cohort
