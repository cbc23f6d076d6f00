// The newest recovery checkpoint is damaged: a coordinator that starts takes the older one, one
// that lives ends and names the file, and no increment is lost or counted twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/recovery/recovery_store.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kDirectory[] = "/recovery";

class DamagedCheckpoint : public testing::TestWithParam<Disks> {
 protected:
  DamagedCheckpoint() : files_(cluster_.WorldOf("chief:0").files) {}

  std::unique_ptr<ClusterCoordinator> Start() {
    ClusterCoordinator::Options options;
    options.recovery_directory = kDirectory;
    options.recovery_interval = absl::Hours(1);
    auto connected = cluster_.Connect(std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    auto coordinator = *std::move(connected);
    counter_ = *MakeCounter(*coordinator);
    return coordinator;
  }

  void Increment(ClusterCoordinator& coordinator, int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(coordinator.Schedule(counter_->increment, {}).ok());
    }
    ASSERT_TRUE(coordinator.Join().ok());
  }
  void IncrementAndSave(ClusterCoordinator& coordinator, int times) {
    Increment(coordinator, times);
    ASSERT_TRUE(coordinator.MakeDurable().ok());
  }
  float Value(ClusterCoordinator& coordinator) {
    const auto value = coordinator.Read(counter_->variable);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value->data<float>() : -1;
  }

  // Flips a bit of the first data shard of the newest checkpoint but `older`. Returns its path.
  std::string Damage(int older) {
    auto left = RecoveryStore(files_, kDirectory).ReadLeft();
    EXPECT_TRUE(left.ok()) << left.status();
    const std::string prefix = left->checkpoints.at(static_cast<size_t>(older)).prefix;
    const std::vector<std::string> paths = *ListCheckpointFiles(files_, prefix);
    for (const std::string& path : paths) {
      if (!absl::StrContains(path, ".data-00000-")) continue;
      std::string bytes = *ReadFile(files_, path);
      bytes[0] ^= 1;
      EXPECT_TRUE(WriteFileAtomically(files_, path, bytes).ok());
      return path;
    }
    return "";
  }

  SimCluster cluster_{5, 2, 2, GetParam()};
  FileSystem& files_;
  std::optional<Counter> counter_;
};

INSTANTIATE_TEST_SUITE_P(All, DamagedCheckpoint, testing::Values(Disks::kShared, Disks::kPrivate),
                         [](const auto& info) {
                           return info.param == Disks::kShared ? "shared" : "stream";
                         });

TEST_P(DamagedCheckpoint, ACoordinatorThatStartsTakesTheOneBefore) {
  auto first = Start();
  ASSERT_TRUE(first->ResumeState().ok());
  IncrementAndSave(*first, 5);
  const ClosureId at_five = first->NextId();
  IncrementAndSave(*first, 3);
  first.reset();
  const std::string damaged = Damage(0);
  ASSERT_NE(damaged, "");

  testing::internal::CaptureStderr();
  auto second = Start();
  const auto left = second->ResumeState();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(left.ok()) << left.status();
  ASSERT_TRUE(left->has_value());
  EXPECT_EQ((*left)->next_id(), at_five.value);
  EXPECT_EQ(second->NextId(), at_five) << "what only the damaged one has runs again";
  EXPECT_EQ(Value(*second), 5.0f);
  EXPECT_THAT(said, HasSubstr("event=recovery_checkpoint_damaged"));
  EXPECT_THAT(said, HasSubstr(damaged));
  IncrementAndSave(*second, 3);
  second.reset();

  // What was saved since is newer than the damaged one.
  auto third = Start();
  ASSERT_TRUE(third->ResumeState().ok());
  EXPECT_EQ(Value(*third), 8.0f);
}

TEST_P(DamagedCheckpoint, WhenAllAreDamagedTheNewestIsNamed) {
  auto first = Start();
  ASSERT_TRUE(first->ResumeState().ok());
  IncrementAndSave(*first, 5);
  IncrementAndSave(*first, 3);
  first.reset();
  const std::string damaged = Damage(0);
  Damage(1);
  auto second = Start();
  const absl::Status status = second->ResumeState().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(damaged));
}

// Its log has no closure that the newest cut covers, so it cannot go back further by itself.
TEST_P(DamagedCheckpoint, ACoordinatorThatLivesEndsAndItsSuccessorTakesTheOneBefore) {
  auto first = Start();
  ASSERT_TRUE(first->ResumeState().ok());
  IncrementAndSave(*first, 5);
  IncrementAndSave(*first, 3);
  Increment(*first, 2);
  const std::string damaged = Damage(0);
  cluster_.tasks().Kill({Role::kPs, 0});
  cluster_.sim().RunFor(absl::Seconds(1));
  cluster_.tasks().Start({Role::kPs, 0});
  cluster_.sim().RunFor(absl::Seconds(30));
  const absl::Status status = first->Join();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(damaged));
  EXPECT_THAT(std::string(status.message()), HasSubstr("goes on from the one before"));
  first.reset();
  auto second = Start();
  ASSERT_TRUE(second->ResumeState().ok());
  EXPECT_EQ(Value(*second), 5.0f);
}

}  // namespace
}  // namespace cohort
