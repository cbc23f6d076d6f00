#include "coordinator/train/train_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kSettings[] = R"({"fit": {"batch_size": 32}, "seed": 1})";

TrainProgress::Job JobOf(const char* settings) { return {{settings}, "/state/recovery"}; }

using Files = google::protobuf::RepeatedPtrField<proto::DataFile>;

// The files x.idx and y.idx in `directory`, the second with the checksum `crc32c`.
Files FilesIn(const std::string& directory, uint32_t crc32c) {
  Files files;
  for (const auto& [name, crc] : {std::pair{"x.idx", 7u}, {"y.idx", crc32c}}) {
    proto::DataFile& file = *files.Add();
    file.set_path(directory + "/" + name);
    file.set_bytes(12);
    file.set_crc32c(crc);
  }
  return files;
}

// The state that a training over `data` saves.
proto::CoordinatorState Saved(TrainProgress::DataIdentity data, const Files& files = {}) {
  TrainProgress progress(JobOf(kSettings));
  progress.SetData(data, {"worker:0", files});
  progress.SetProgress({64, 2}, "/saved/ckpt-64");
  proto::CoordinatorState state;
  state.set_application(progress.Save({}));
  return state;
}

absl::Status Load(const proto::CoordinatorState& state, TrainProgress::DataIdentity now,
                  const Files& files = {}) {
  TrainProgress progress(JobOf(kSettings));
  progress.SetData(now, {"worker:1", files});
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

TEST(TrainProgress, NamesTheFirstFileThatChangedWithBothWorkersAndPaths) {
  const absl::Status status =
      Load(Saved({12000, 0xabc}, FilesIn("/a", 0xabc)), {12000, 0xabd}, FilesIn("/b", 0xabd));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("then worker:0 read /a/y.idx (12 bytes, checksum 00000abc), and now "
                        "worker:1 /b/y.idx (12 bytes, checksum 00000abd)"));
}

TEST(TrainProgress, RefusesOtherSettingsWhateverTheData) {
  TrainProgress progress(JobOf(R"({"fit": {"batch_size": 64}, "seed": 1})"));
  progress.SetData({12000, 0xabc}, {"worker:0", {}});
  const absl::Status status = progress.Load(Saved({12000, 0xabc}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fit.batch_size was 32 and is 64;"));
}

// A file whose first layer gives the shape of the input has one layer less than the settings say.
TEST(TrainProgress, NamesKeysAsTheJobFileHasThem) {
  const auto settings = [](int units, const char* input) {
    return absl::StrCat(R"({"model": {"config": {"layers": [{"config": {"shape": )", input,
                        R"(}}, {"config": {"units": )", units, R"(}}]}}})");
  };
  proto::CoordinatorState state;
  state.set_application(TrainProgress({{settings(10, "[4]")}, ""}).Save({}));
  const auto refusal = [&](const ModelFileForm& form, const char* input) {
    const TrainProgress now({{settings(20, input), form}, "/state/recovery"});
    return std::string(now.CheckSettings(state).message());
  };
  EXPECT_THAT(refusal({}, "[4]"),
              AllOf(HasSubstr("model.config.layers.1.config.units was 10 and is 20"),
                    HasSubstr("remove /state/recovery/recovery-*")));
  EXPECT_THAT(refusal({.implies_input = true}, "[5]"),
              AllOf(HasSubstr("model.config.layers.0.config.units was 10 and is 20"),
                    HasSubstr("model.config.layers.0.config.input_shape was 4 and is 5")));
  EXPECT_THAT(refusal({.implies_input = true, .config_is_list = true}, "[4]"),
              HasSubstr("model.config.0.config.units was 10 and is 20"));
}

TEST(TrainProgress, EveryRefusalNamesTheDirectoryToRemove) {
  TrainProgress progress(JobOf(kSettings));
  progress.SetData({12000, 0xabc}, {"worker:0", {}});
  progress.SetDevices({"GPU:0"});
  proto::CoordinatorState state;
  TrainProgress before(JobOf(kSettings));
  before.SetData({12000, 0xabc}, {"worker:0", {}});
  before.SetDevices({"GPU:0", "GPU:1"});
  state.set_application(before.Save({}));
  for (const absl::Status& status : {progress.Load(state), progress.Load(Saved({12001, 0xabc})),
                                     TrainProgress(JobOf("{}")).Load(Saved({12000, 0xabc}))}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove /state/recovery/recovery-*"));
  }
}

TEST(TrainProgress, ARefusalNamesCheckpointsOnlyWhereTheJobSavesThem) {
  TrainProgress before(JobOf(kSettings));
  before.SetData({12000, 0xabc}, {"worker:0", {}});
  before.SetDevices({"GPU:0", "GPU:1"});
  proto::CoordinatorState state;
  state.set_application(before.Save({}));
  for (const bool saves : {false, true}) {
    TrainProgress::Job job = JobOf(kSettings);
    job.saves_checkpoints = saves;
    TrainProgress progress(std::move(job));
    progress.SetData({12000, 0xabc}, {"worker:0", {}});
    progress.SetDevices({"GPU:0"});
    const std::string refusal(progress.Load(state).message());
    EXPECT_EQ(absl::StrContains(refusal, "checkpoint.restore=latest"), saves) << refusal;
  }
}

constexpr TrainProgress::DataIdentity kTestData{4, 0xabc};

// The sums of a step with two examples.
EpochMeter::Sums Step(double loss) { return {1, {loss, 2}}; }

// A closure of one step that is covered by a cut.
Cut::Covered Done(uint64_t id, float loss) {
  auto result = std::make_shared<RemoteValueState>();
  result->Set(FetchedTensors{Tensor::Scalar(loss), Tensor::Scalar(2.0f)});
  return {ClosureId{id}, result, 1};
}

// Returns what another process loads from what `progress` saves at the cut.
std::unique_ptr<TrainProgress> Next(TrainProgress& progress, const Cut& cut) {
  proto::CoordinatorState state;
  state.set_application(progress.Save(cut));
  for (const ClosureId id : cut.open) state.add_open(id.value);
  state.set_next_id(cut.next.value);
  auto next = std::make_unique<TrainProgress>(JobOf(kSettings));
  EXPECT_TRUE(next->Load(state).ok());
  return next;
}

TEST(DataPosition, TravelsWithARecoveryCheckpoint) {
  TrainProgress before(JobOf(kSettings));
  before.BeginPass(proto::TrainState::TRAINING, ClosureId{1}, {});
  before.EndTraining(4, {2, 30}, {}, Step(1));
  before.EndEpoch();
  const auto after = Next(before, Cut{{}, {}, ClosureId{5}, {}});
  EXPECT_EQ(after->progress().data, (DataPosition{2, 30}));
  EXPECT_EQ(after->progress().epochs_done, 1);
  EXPECT_EQ(after->last_results().trained->values, Step(1).values);
}

// An epoch is not done before its validation and its checkpoint.
TEST(TrainProgress, WhatIsTrainedIsNotTrainedAgainAndItsEpochGoesOn) {
  TrainProgress before(JobOf(kSettings));
  before.BeginPass(proto::TrainState::TRAINING, ClosureId{1}, {});
  before.EndTraining(4, {0, 8}, {8, 1}, Step(3));
  const auto after = Next(before, Cut{{}, {}, ClosureId{5}, {}});
  EXPECT_EQ(after->progress().epochs_done, 0);
  EXPECT_EQ(after->progress().global_step, 4);
  ASSERT_TRUE(after->epoch_results().trained.has_value());
  EXPECT_EQ(after->epoch_results().trained->values, Step(3).values);
  EXPECT_FALSE(after->epoch_results().validated.has_value());
  after->EndEpoch();
  EXPECT_EQ(after->progress().epochs_done, 1);
  EXPECT_FALSE(after->epoch_results().trained.has_value());
}

// A process that is lost when it has done 7 and 9 of the closures from 7 to 10.
TEST(TrainProgress, ATrainingGoesOnWithTheClosuresThatTheCutLeavesOpen) {
  TrainProgress before(JobOf(kSettings));
  before.BeginPass(proto::TrainState::TRAINING, ClosureId{7}, {});
  const auto after = Next(before, Cut{{Done(7, 1), Done(9, 3)}, {ClosureId{8}}, ClosureId{10}, {}});
  const auto begun = after->BeginPass(proto::TrainState::TRAINING, ClosureId{8}, {});
  EXPECT_EQ(begun.first, ClosureId{7});
  EXPECT_EQ(begun.sums.steps, 2);
  EXPECT_EQ(begun.sums.values, (std::vector<double>{4, 4}));
  for (const int64_t left : {1, 3, 4}) EXPECT_TRUE(begun.IsLeft(left)) << left;
  for (const int64_t done : {0, 2}) EXPECT_FALSE(begun.IsLeft(done)) << done;
}

// A closure that a later cut covers without naming it is durable, so its sums need no entry.
TEST(TrainProgress, KeepsSumsOneByOneOnlyUntilTheirClosuresAreDurable) {
  TrainProgress progress(JobOf(kSettings));
  progress.BeginPass(proto::TrainState::TRAINING, ClosureId{1}, {});
  double all = 0;
  for (uint64_t id = 1; id <= 100; ++id) {
    all += static_cast<double>(id);
    // Each cut is durable when the next one begins, but for the closures that it names again.
    Cut cut{{Done(id, static_cast<float>(id))}, {}, ClosureId{id + 1}, {}};
    progress.Save(cut);
    EXPECT_LE(progress.num_reported(), 1u);
    EXPECT_EQ(progress.settled(), ClosureId{id});
  }
  const auto after = Next(progress, Cut{{}, {}, ClosureId{101}, {}});
  const auto begun = after->BeginPass(proto::TrainState::TRAINING, ClosureId{101}, {});
  EXPECT_EQ(begun.sums.steps, 100);
  EXPECT_EQ(begun.sums.values, (std::vector<double>{all, 200}));
}

// A restore takes back what was covered and is not durable. It counts when it is covered again.
TEST(TrainProgress, AClosureThatARestoreTookBackCountsOnce) {
  TrainProgress progress(JobOf(kSettings));
  progress.BeginPass(proto::TrainState::TRAINING, ClosureId{1}, {});
  progress.Save(Cut{{Done(1, 5), Done(2, 7)}, {}, ClosureId{3}, {}});
  progress.Save(Cut{{Done(1, 5)}, {ClosureId{2}}, ClosureId{3}, {}});
  EXPECT_EQ(progress.settled(), ClosureId{1});
  progress.Save(Cut{{Done(1, 5), Done(2, 7)}, {}, ClosureId{3}, {}});
  const auto after = Next(progress, Cut{{}, {}, ClosureId{3}, {}});
  const auto begun = after->BeginPass(proto::TrainState::TRAINING, ClosureId{3}, {});
  EXPECT_EQ(begun.sums.steps, 2);
  EXPECT_EQ(begun.sums.values, (std::vector<double>{12, 4}));
}

TEST(TrainProgress, KnowsTheCheckpointsThatTheJobBeganFromAndSaved) {
  TrainProgress before(JobOf(kSettings));
  before.SetProgress({64, 2}, "/saved/ckpt-64");
  auto after = Next(before, Cut{{}, {}, ClosureId{5}, {}});
  EXPECT_EQ(after->before().global_step, 64);
  EXPECT_EQ(after->before().epochs_done, 2);
  EXPECT_EQ(after->checkpoint().prefix, "/saved/ckpt-64");
  EXPECT_EQ(after->checkpoint().step, 64);
  after->BeginPass(proto::TrainState::TRAINING, ClosureId{5}, {});
  after->EndTraining(4, {3, 0}, {}, Step(1));
  after->SetCheckpoint("/saved/ckpt-68");
  after->EndEpoch();
  after = Next(*after, Cut{{}, {}, ClosureId{9}, {}});
  EXPECT_EQ(after->before().global_step, 64);
  EXPECT_EQ(after->progress().global_step, 68);
  EXPECT_EQ(after->checkpoint().prefix, "/saved/ckpt-68");
  EXPECT_EQ(after->checkpoint().step, 68);
}

// A process may end when its checkpoint is saved and no recovery checkpoint says so.
TEST(TrainProgress, KnowsTheNameOfTheCheckpointThatIsSavedNext) {
  TrainProgress before(JobOf(kSettings));
  before.PlanCheckpoint({"/saved/ckpt-68", 68});
  const auto after = Next(before, Cut{{}, {}, ClosureId{5}, {}});
  EXPECT_EQ(after->planned_checkpoint().prefix, "/saved/ckpt-68");
  EXPECT_EQ(after->planned_checkpoint().step, 68);
  EXPECT_EQ(after->checkpoint().prefix, "");
}

// The checkpoint of a program that has no progress, or has not begun.
TEST(TrainProgress, RefusesAStateThatIsOfNoTraining) {
  const absl::Status refused = TrainProgress(JobOf(kSettings)).CheckSettings({});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("holds no state of a training"),
                    HasSubstr("remove /state/recovery/recovery-*")));
}

// Closures 7 and 9 are done, and a job with fewer epochs ends with them.
TEST(TrainProgress, StepsOfAnEpochThatIsGivenUpCountInEveryLaterProcess) {
  TrainProgress before(JobOf(kSettings));
  before.SetProgress({64, 2}, "");
  before.BeginPass(proto::TrainState::TRAINING, ClosureId{7}, {});
  auto after = Next(before, Cut{{Done(7, 1), Done(9, 3)}, {ClosureId{8}}, ClosureId{10}, {}});
  for (const int64_t made : {0, 2}) EXPECT_TRUE(after->IsMade(made)) << made;
  for (const int64_t left : {1, 3}) EXPECT_FALSE(after->IsMade(left)) << left;
  after->EndEarly({2, {2, 64}, 4});
  for (int process = 0; process < 2; ++process) {
    EXPECT_EQ(after->progress().global_step, 66);
    EXPECT_EQ(after->progress().epochs_done, 2);
    EXPECT_EQ(after->progress().data, (DataPosition{2, 64}));
    EXPECT_EQ(after->totals().examples, 4);
    EXPECT_FALSE(after->IsMade(0));
    after = Next(*after, Cut{{}, {ClosureId{8}}, ClosureId{10}, {}});
  }
}

class EvaluationOf : public testing::TestWithParam<proto::TrainState::Pass> {
 protected:
  // A process that is lost when it has done the first and the third closure, of the ids 7 and 9.
  std::unique_ptr<TrainProgress> Lost() {
    TrainProgress before(JobOf(kSettings));
    before.BeginPass(GetParam(), ClosureId{7}, kTestData);
    before.AddEvaluated(0, {Step(1)});
    before.AddEvaluated(2, {Step(3)});
    before.AddEvaluated(3, {});  // it failed
    return Next(before, Cut{{}, {ClosureId{8}}, ClosureId{11}, {}});
  }
};

INSTANTIATE_TEST_SUITE_P(All, EvaluationOf,
                         testing::Values(proto::TrainState::VALIDATION, proto::TrainState::TEST));

TEST_P(EvaluationOf, GoesOnWhereItWas) {
  std::unique_ptr<TrainProgress> after = Lost();
  for (int process = 0; process < 2; ++process) {
    const TrainProgress::Begun begun = after->BeginPass(GetParam(), ClosureId{8}, kTestData);
    EXPECT_EQ(begun.first, ClosureId{11});
    EXPECT_EQ(begun.sums.steps, 2);
    EXPECT_EQ(begun.sums.values, (std::vector<double>{4, 4}));
    for (const int64_t left : {1, 3, 4}) EXPECT_TRUE(begun.IsLeft(left)) << left;
    for (const int64_t done : {0, 2}) EXPECT_FALSE(begun.IsLeft(done)) << done;
    // Another process is lost before it has done more.
    after = Next(*after, Cut{{}, {}, ClosureId{11}, {}});
  }
}

// A cut that is made while the ids of the new pass are below 11 would take 9 for done.
TEST_P(EvaluationOf, IsAbandonedWithAllItsIds) {
  const TrainProgress::Begun begun =
      Lost()->BeginPass(proto::TrainState::TRAINING, ClosureId{8}, kTestData);
  EXPECT_EQ(begun.first, ClosureId{11});
  EXPECT_TRUE(begun.IsLeft(0));
  EXPECT_EQ(begun.sums.steps, 0);
}

TEST(TrainProgress, ATestOfOtherDataBeginsAnew) {
  TrainProgress before(JobOf(kSettings));
  before.BeginPass(proto::TrainState::TEST, ClosureId{7}, kTestData);
  before.AddEvaluated(0, {Step(1)});
  const auto after = Next(before, Cut{{}, {}, ClosureId{8}, {}});
  testing::internal::CaptureStderr();
  const auto begun = after->BeginPass(proto::TrainState::TEST, ClosureId{8}, {4, 0xabd});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("event=test_begins_anew"));
  EXPECT_EQ(begun.first, ClosureId{8});
  EXPECT_TRUE(begun.IsLeft(0));
  EXPECT_EQ(begun.sums.steps, 0);
}

// States of an earlier version say nothing of their settings.
TEST(RecoveryOfAnotherJob, IsRefusedWithAllThatMayDiffer) {
  proto::CoordinatorState state;
  TrainProgress before(JobOf(""));
  before.SetProgress({64, 2}, "");
  state.set_application(before.Save(Cut()));
  const absl::Status refused = TrainProgress(JobOf(kSettings)).Load(state);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  for (const char* cause : {"model", "optimizer", "learning rate", "steps_per_epoch"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(cause));
  }
}

}  // namespace
}  // namespace cohort
