#include "coordinator/train/train_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kSettings = 5;

// The state that a training over `data` saves.
proto::CoordinatorState Saved(TrainProgress::DataIdentity data) {
  TrainProgress progress(kSettings);
  progress.SetData(data);
  progress.SetProgress({64, 2});
  proto::CoordinatorState state;
  state.set_application(progress.Save({}));
  return state;
}

absl::Status Load(const proto::CoordinatorState& state, TrainProgress::DataIdentity now) {
  TrainProgress progress(kSettings);
  progress.SetData(now);
  RETURN_IF_ERROR(progress.Load(state));
  EXPECT_EQ(progress.progress().global_step, 64);
  EXPECT_EQ(progress.progress().epochs_done, 2);
  return absl::OkStatus();
}

TEST(TrainProgress, GoesOnWithTheSameData) {
  EXPECT_TRUE(Load(Saved({12000, 0xabc}), {12000, 0xabc}).ok());
}

TEST(TrainProgress, RefusesDataOfAnotherLengthAndNamesBoth) {
  const absl::Status status = Load(Saved({12000, 0xabc}), {12001, 0xabd});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("12000"), HasSubstr("12001")));
}

TEST(TrainProgress, RefusesDataOfAnotherContentAndNamesBoth) {
  const absl::Status status = Load(Saved({12000, 0xabc}), {12000, 0xabd});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("00000abc"), HasSubstr("00000abd")));
}

TEST(TrainProgress, RefusesOtherSettingsWhateverTheData) {
  TrainProgress progress(kSettings + 1);
  progress.SetData({12000, 0xabc});
  const absl::Status status = progress.Load(Saved({12000, 0xabc}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("optimizer"));
}

TEST(DataPosition, TravelsWithARecoveryCheckpoint) {
  TrainProgress before(7);
  before.BeginEpoch(ClosureId{1});
  before.EndEpoch(4, {2, 30}, {});
  proto::CoordinatorState state;
  state.set_application(before.Save(Cut()));
  TrainProgress after(7);
  ASSERT_TRUE(after.Load(state).ok());
  EXPECT_EQ(after.progress().data, (DataPosition{2, 30}));
  EXPECT_EQ(after.progress().epochs_done, 1);
}

TEST(RecoveryOfAnotherJob, IsRefusedWithAllThatMayDiffer) {
  proto::CoordinatorState state;
  state.set_application(TrainProgress(7).Save(Cut()));
  const absl::Status refused = TrainProgress(8).Load(state);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  for (const char* cause : {"model", "optimizer", "learning rate", "steps_per_epoch"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(cause));
  }
}

}  // namespace
}  // namespace cohort
