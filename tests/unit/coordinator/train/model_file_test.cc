// Whole models that Keras 2.2, 2.15 and 3.15 saved (tests/golden/models/pack_files.py,
// pack_restore.py), as a job names them.

#include "coordinator/train/model_file.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/job/keras_file.h"
#include "coordinator/train/init_weights.h"
#include "coordinator/train/job_settings.h"
#include "coordinator/train/offline_plan.h"
#include "nlohmann/json.hpp"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Puts the files of a pack on the disk, under their names in the pack.
void Unpack(const std::string& name, MemoryFileSystem& disk) {
  for (const auto& [path, bytes] :
       FilesOf(absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/", name))) {
    EXPECT_TRUE(disk.MakeDirectories(DirectoryOf(path)).ok());
    EXPECT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }
}

// A job with this model and a file of data for each input and for the labels.
absl::StatusOr<JobSpec> Parse(MemoryFileSystem& disk, const json& model, size_t inputs) {
  json paths = json::array();
  for (size_t i = 0; i <= inputs; ++i) paths.push_back(absl::StrCat("/data/", i));
  const json job = {{"model", model},
                    {"data", {{"train", {{"class_name", "IDX"}, {"config", {{"paths", paths}}}}}}},
                    {"strategy", {{"type", "one_device"}}}};
  return ParseJob(job.dump(), "job", {},
                  [&](const std::string& path) { return ReadKerasFile(disk, path); });
}

// Expects that every variable of the job's model has a value in the model's file, which has no
// other.
void ExpectAllWeights(MemoryFileSystem& disk, const JobSpec& job) {
  ClusterShape cluster;
  cluster.workers = {0};
  const absl::StatusOr<Plan> plan = MakeOfflinePlan(job, cluster);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(CheckInitFrom(disk, job, plan->variables).ok());
  const auto file = OpenWeights(disk, job.checkpoint.init_from.path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto matches = MatchInitFrom(*file, job, plan->variables);
  ASSERT_TRUE(matches.ok()) << matches.status();
  EXPECT_THAT(matches->matched, SizeIs(plan->variables.size()));
  EXPECT_THAT(matches->missing, IsEmpty());
  EXPECT_THAT(matches->left_over, IsEmpty());
}

// The parameter is a file of the pack with the version of Keras that it says.
class SavedModels : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SavedModels, HaveTheModelWhatCompileWasGivenAndTheWeights) {
  const auto& [path, version] = GetParam();
  MemoryFileSystem disk;
  Unpack("saved_models.zip", disk);
  const auto read = ReadKerasFile(disk, path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->keras_version, version);
  EXPECT_TRUE(read->has_weights);
  const auto job = Parse(disk, {{"keras", path}}, 3);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(absl::StrCat(job->model.keras.major, ".", job->model.keras.minor),
            std::string(version).substr(0, std::string(version).rfind('.')));
  EXPECT_EQ(job->model.file_form.version_from, "keras_version");
  EXPECT_EQ(job->compile.optimizer.class_name, "Adam");
  EXPECT_EQ(job->compile.outputs[0].loss.class_name, "MeanSquaredError");
  EXPECT_EQ(job->checkpoint.init_from.path, path);
  EXPECT_EQ(InitFromKey(*job), "model.keras");
  ExpectAllWeights(disk, *job);
}

INSTANTIATE_TEST_SUITE_P(All, SavedModels,
                         testing::Values(std::make_pair("2.2.4/m.h5", "2.2.4"),
                                         std::make_pair("2.15.0/m.h5", "2.15.0"),
                                         std::make_pair("2.15.0/m.keras", "2.15.0"),
                                         std::make_pair("3.15.1/m.h5", "3.15.1"),
                                         std::make_pair("3.15.1/m.keras", "3.15.1")));

TEST(SavedModel, ALossThatWasGivenAsAnObjectIsTaken) {
  for (const char* pack : {"restore_k2.15.zip", "restore_k3.15.zip"}) {
    MemoryFileSystem disk;
    Unpack(pack, disk);
    for (const char* path : {"m.keras", "m.h5", "sgdm_m.h5"}) {
      SCOPED_TRACE(absl::StrCat(pack, " ", path));
      const auto job = Parse(disk, {{"keras", path}}, 2);
      ASSERT_TRUE(job.ok()) << job.status();
      EXPECT_EQ(job->compile.outputs[0].loss.class_name, "SparseCategoricalCrossentropy");
    }
  }
}

TEST(SavedModel, TheSettingsAreThoseOfTheContentAndNotOfThePath) {
  MemoryFileSystem disk;
  Unpack("saved_models.zip", disk);
  const std::string bytes = *ReadFile(disk, "3.15.1/m.keras");
  ASSERT_TRUE(WriteFileAtomically(disk, "/elsewhere", bytes).ok());
  json config = json::parse(ReadKerasFile(disk, "/elsewhere")->config);
  ASSERT_TRUE(WriteFileAtomically(disk, "/model.json", config.dump()).ok());
  for (json& layer : config["config"]["layers"]) {
    if (layer["config"]["name"] == "gru") layer["config"]["units"] = 5;
  }
  ASSERT_TRUE(WriteFileAtomically(disk, "/other.json", config.dump()).ok());
  const auto settings = [&](const char* path) {
    const auto job = Parse(disk, {{"keras", path}}, 3);
    EXPECT_TRUE(job.ok()) << job.status();
    return JobSettings{job.ok() ? SettingsText(*job) : "", job->model.file_form};
  };
  const std::string before = settings("3.15.1/m.keras").text;
  EXPECT_EQ(settings("/elsewhere").text, before);
  EXPECT_EQ(settings("/model.json").text, before) << "the weights are no setting";
  EXPECT_EQ(before.find("elsewhere"), std::string::npos);
  EXPECT_THAT(SettingsDifference(before, settings("/other.json")),
              AllOf(HasSubstr("model.keras[/other.json].config.layers."),
                    HasSubstr("config.units was 2 and is 5")));
}

std::string ErrorOf(MemoryFileSystem& disk, const std::string& path) {
  const auto read = ReadKerasFile(disk, path);
  EXPECT_FALSE(read.ok());
  return std::string(read.status().message());
}

TEST(SavedModel, WhatIsNoModelIsRefusedWithTheRemedy) {
  MemoryFileSystem disk;
  Unpack("restore_k3.15.zip", disk);
  EXPECT_THAT(ErrorOf(disk, "m.weights.h5"),
              AllOf(HasSubstr("m.weights.h5: holds weights, and not"), HasSubstr("init_from")));
  ASSERT_TRUE(disk.MakeDirectories("saved").ok());
  EXPECT_THAT(ErrorOf(disk, "saved"), AllOf(HasSubstr("is a directory"), HasSubstr("SavedModel")));
  EXPECT_THAT(ErrorOf(disk, "nothing"), HasSubstr("nothing"));
  EXPECT_THAT(ErrorOf(disk, ""), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf(disk, "~/m.keras"), HasSubstr("~"));
  ASSERT_TRUE(WriteFileAtomically(disk, "large", std::string(kModelConfigBytesMax + 1, '{')).ok());
  EXPECT_THAT(ErrorOf(disk, "large"), HasSubstr(absl::StrCat(kModelConfigBytesMax)));
}

// Every byte of the file decides something, or nothing; none makes reading crash.
TEST(SavedModel, ADamagedFileIsAnErrorOrAModel) {
  MemoryFileSystem disk;
  Unpack("restore_k2.15.zip", disk);
  for (const char* path : {"m.keras", "m.h5"}) {
    const std::string whole = *ReadFile(disk, path);
    for (size_t at = 0; at < whole.size(); at += 1009) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      ASSERT_TRUE(WriteFileAtomically(disk, "damaged", damaged).ok());
      (void)Parse(disk, {{"keras", "damaged"}}, 2);
      ASSERT_TRUE(WriteFileAtomically(disk, "damaged", whole.substr(0, at)).ok());
      (void)Parse(disk, {{"keras", "damaged"}}, 2);
    }
  }
}

}  // namespace
}  // namespace cohort
