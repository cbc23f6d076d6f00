// Placement by what the parameter servers of an earlier run report. Expectations: the bytes of the
// increments that were scheduled; that a job which is gone on with finds its slices where they lay.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/api/load_record.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

class MeasuredPlacement : public testing::Test {
 protected:
  std::unique_ptr<ClusterCoordinator> Connect(const std::string& recovery_directory = "") {
    ClusterCoordinator::Options options;
    options.recovery_directory = recovery_directory;
    auto connected = cluster.Connect(std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    return *std::move(connected);
  }
  void RestartServers() {
    for (const int ps : {0, 1}) {
      cluster.tasks().Kill({Role::kPs, ps});
      cluster.tasks().Start({Role::kPs, ps});
    }
  }

  SimCluster cluster{21, 2, 2};
};

TEST_F(MeasuredPlacement, CheckpointsSayWhatWasMovedSinceTheLastOne) {
  const auto coordinator = Connect();
  std::vector<proto::VariableLayout> layouts;
  std::vector<ProgramHandle> programs;
  for (const char* name : {"busy", "idle"}) {
    VariableSpec spec;
    spec.name = name;
    spec.initializer.set_op("zeros");
    layouts.push_back(coordinator->Scope(AssignAdd()).CreateVariable(spec)->layout());
    programs.push_back(*coordinator->Register(IncrementProgram(name)));
  }
  const World world = cluster.WorldOf("chief:0");
  CheckpointManager manager(world.files, *coordinator, {"/checkpoints", 2});
  const auto count_and_save = [&](int busy, int idle) {
    for (int i = 0; i < busy; ++i) EXPECT_TRUE(coordinator->Schedule(programs[0], {}).ok());
    for (int i = 0; i < idle; ++i) EXPECT_TRUE(coordinator->Schedule(programs[1], {}).ok());
    EXPECT_TRUE(coordinator->Join().ok());
    const auto prefix = manager.Save({busy, 1}, layouts);
    EXPECT_TRUE(prefix.ok()) << prefix.status();
    return *ReadLoads(world.files, *prefix);
  };
  MeasuredLoads loads = count_and_save(30, 2);
  EXPECT_THAT(loads["busy"], ElementsAre(FieldsAre(RowRange{0, 1}, 30 * 4)));
  EXPECT_THAT(loads["idle"], ElementsAre(FieldsAre(RowRange{0, 1}, 2 * 4)));
  loads = count_and_save(5, 7);
  EXPECT_THAT(loads["busy"], ElementsAre(FieldsAre(RowRange{0, 1}, 5 * 4)));
  EXPECT_THAT(loads["idle"], ElementsAre(FieldsAre(RowRange{0, 1}, 7 * 4)));
}

constexpr char kJob[] = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"units": 16, "activation": "relu"}},
        {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "rmsprop", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 96}},
             "pipeline": [{"class_name": "Flatten"},
                          {"class_name": "Rescaling", "config": {"scale": 0.0039}}]},
    "fit": {"batch_size": 32},
    "strategy": {"placement": "measured"},
    "checkpoint": {"directory": "/checkpoints", "restore": "latest"}})";

TEST_F(MeasuredPlacement, DecidesWhenAJobStartsAndStaysWhenItIsGoneOnWith) {
  const auto job = ParseJob(kJob, "job", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const World world = cluster.WorldOf("chief:0");
  const DataSources data = *FindDataSources(world, cluster.waiter(), job->data, {}, job->seed);
  const auto train = [&](ClusterCoordinator& coordinator) {
    Trainer trainer(world, cluster.waiter(), coordinator, *job, data);
    return trainer.Run().status();
  };
  // Nothing is measured yet: by bytes. All of a dense model is asked for in every step.
  EXPECT_TRUE(train(*Connect()).ok());
  const auto first = FindCheckpoint(world.files, "/checkpoints", "latest");
  MeasuredLoads loads = *ReadLoads(world.files, *first);
  ASSERT_EQ(loads.size(), 4u);
  const int64_t pulls_and_pushes = 3 + 3;  // of 96 examples in batches of 32
  EXPECT_THAT(loads["dense/kernel"],
              ElementsAre(FieldsAre(RowRange{0, 784}, 784 * 16 * 4 * pulls_and_pushes)));

  RestartServers();
  const auto coordinator = Connect("/recovery");
  EXPECT_TRUE(train(*coordinator).ok());
  // A later checkpoint that would place them otherwise: the small bias is the busiest.
  loads.clear();
  std::map<std::string, Tensor> extras;
  extras["dense/bias/.COHORT_LOAD"] = Tensor::FromVector<int64_t>({0, 16, 1 << 30}, Shape{1, 3});
  const std::string later = "/checkpoints/later";
  const auto saved = coordinator->parts().ps->Save(later, extras);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_TRUE(WriteIndex(world.files, later, 2, *saved).ok());
  ASSERT_TRUE(WriteCheckpointState(world.files, "/checkpoints", {"later", {"later"}}).ok());
  // Servers refuse slices that they hold otherwise, or do not hold.
  const absl::Status resumed = train(*Connect("/recovery"));
  EXPECT_TRUE(resumed.ok()) << resumed;
}

}  // namespace
}  // namespace cohort
