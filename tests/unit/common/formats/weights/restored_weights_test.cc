// Every kind of file that Keras 2.15, Keras 3.15 and TensorFlow 1 wrote of one model
// (tests/golden/models/pack_restore.py), against the weights that these programs had.

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/formats/weights/keras_groups.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/open_weights.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The files of one pack, on a disk in memory.
class Pack {
 public:
  explicit Pack(const std::string& name) {
    for (const auto& [path, bytes] :
         FilesOf(absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/restore_", name, ".zip"))) {
      EXPECT_TRUE(disk_.MakeDirectories(DirectoryOf(path)).ok());
      EXPECT_TRUE(WriteFileAtomically(disk_, path, bytes).ok());
    }
  }
  FileSystem& disk() { return disk_; }
  nlohmann::json Json(const std::string& path) {
    return nlohmann::json::parse(*ReadFile(disk_, path));
  }

 private:
  MemoryFileSystem disk_;
};

Shape ShapeIn(const nlohmann::json& weight) {
  return Shape(absl::MakeConstSpan(weight["shape"].get<std::vector<int64_t>>()));
}

// Returns the variables of a model, as Cohort would name them.
std::vector<WantedWeight> WantedOf(const nlohmann::json& golden) {
  std::map<std::string, std::string> groups;
  if (golden.contains("config")) {
    std::vector<std::string> classes;
    const nlohmann::json& layers = golden["config"]["config"]["layers"];
    for (const auto& layer : layers) classes.push_back(layer["class_name"]);
    const std::vector<std::string> names = KerasLayerGroups(classes);
    for (size_t i = 0; i < names.size(); ++i) groups[layers[i]["config"]["name"]] = names[i];
  }
  std::vector<WantedWeight> wanted;
  for (const auto& weight : golden["weights"]) {
    WantedWeight one;
    one.name = weight["name"];
    if (weight.contains("layer")) {
      one.layer = weight["layer"];
      one.name = absl::StrCat(one.layer, "/", one.name);
    }
    one.group = groups[one.layer];
    one.shape = ShapeIn(weight);
    if (!wanted.empty() && wanted.back().layer == one.layer) {
      one.position = wanted.back().position + 1;
    }
    wanted.push_back(one);
  }
  return wanted;
}

// Checks that the file has every variable of the model, with its value.
void ExpectWeights(const WeightFile& file, const nlohmann::json& golden) {
  const std::vector<WantedWeight> wanted = WantedOf(golden);
  const auto matches = MatchWeights(wanted, file, {});
  ASSERT_TRUE(matches.ok()) << matches.status();
  EXPECT_THAT(matches->missing, IsEmpty());
  EXPECT_THAT(matches->mismatched, IsEmpty());
  EXPECT_THAT(matches->left_over, IsEmpty());
  ASSERT_THAT(matches->matched, SizeIs(wanted.size()));
  for (const WeightMatch& match : matches->matched) {
    const auto value = ReadMatch(file, match, DType::kFloat32);
    ASSERT_TRUE(value.ok()) << value.status();
    const auto expected = golden["weights"][match.wanted]["data"].get<std::vector<float>>();
    const absl::Span<const float> values = value->span<float>();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), expected)
        << wanted[match.wanted].name << " of " << file.entries[match.entry].name;
  }
}

// The parameter is "pack what": what.json says what is in its files.
class RestoredWeights : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RestoredWeights, EveryFileHasTheWeightsOfItsModel) {
  Pack pack(GetParam().first);
  const nlohmann::json golden = pack.Json(absl::StrCat(GetParam().second, ".json"));
  for (const auto& one : golden["files"]) {
    const std::string path = one["file"];
    SCOPED_TRACE(path);
    const auto file = OpenWeights(pack.disk(), path);
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectWeights(*file, golden);
    EXPECT_EQ(file->path, path);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RestoredWeights, testing::ValuesIn(RestoredModels()));

TEST(RestoredWeights, ASavedModelIsOpenedByItsDirectory) {
  Pack pack("k2.15");
  ASSERT_TRUE(WriteFileAtomically(pack.disk(), "saved/saved_model.pb", "").ok() ||
              pack.disk().MakeDirectories("saved/variables").ok());
  ASSERT_TRUE(WriteFileAtomically(pack.disk(), "saved/saved_model.pb", "").ok());
  for (const char* name : {"variables.index", "variables.data-00000-of-00001"}) {
    const auto bytes = ReadFile(pack.disk(), absl::StrCat("saved_variables/", name));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(
        WriteFileAtomically(pack.disk(), absl::StrCat("saved/variables/", name), *bytes).ok());
  }
  for (const char* path : {"saved", "saved_variables", "saved_variables/variables.index"}) {
    const auto file = OpenWeights(pack.disk(), path);
    ASSERT_TRUE(file.ok()) << path << ": " << file.status();
    EXPECT_EQ(file->kind, WeightFileKind::kTensorFlowCheckpoint);
    ExpectWeights(*file, pack.Json("restore.json"));
  }
}

TEST(RestoredWeights, KerasFilesSayTheirVersionAndTheirModel) {
  for (const auto& [name, version] :
       std::vector<std::pair<std::string, std::string>>{{"k2.15", "2.15.0"}, {"k3.15", "3.15.1"}}) {
    Pack pack(name);
    for (const char* path : {"m.keras", "m.h5"}) {
      const auto file = OpenWeights(pack.disk(), path);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(file->texts.keras_version, version) << path;
      const auto config = nlohmann::json::parse(file->texts.config, nullptr, false);
      EXPECT_EQ(config.value("class_name", ""), "Functional") << path;
    }
    EXPECT_THAT(OpenWeights(pack.disk(), "m.h5")->texts.training_config, HasSubstr("loss"));
  }
}

TEST(RestoredWeights, CheckpointsOfTensorFlow1HaveTheWeightsOfTheirModels) {
  Pack pack("tf1");
  for (const char* name : {"adam", "adam_partitioned", "momentum", "rmsprop"}) {
    SCOPED_TRACE(name);
    const auto file = OpenWeights(pack.disk(), name);
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectWeights(*file, pack.Json(absl::StrCat(name, ".json")));
  }
  const auto before_v2 = OpenWeights(pack.disk(), "adam_v1format");
  EXPECT_TRUE(absl::IsUnimplemented(before_v2.status()));
  EXPECT_THAT(std::string(before_v2.status().message()), HasSubstr("safetensors"));
}

TEST(RestoredWeights, OptimizersValuesAreNoWeights) {
  Pack pack("k3.15");
  for (const char* path : {"ckpt", "m.weights.h5", "m.keras", "m.h5"}) {
    const auto file = OpenWeights(pack.disk(), path);
    ASSERT_TRUE(file.ok()) << file.status();
    int of_optimizer = 0;
    for (const WeightEntry& entry : file->entries) {
      if (entry.role == WeightRole::kOptimizer) ++of_optimizer;
    }
    // 20 slots of 10 variables, the iteration and the learning rate.
    EXPECT_EQ(of_optimizer, 22) << path;
  }
}

TEST(OpenWeights, WhatHoldsNoWeightsIsRefused) {
  MemoryFileSystem disk;
  ASSERT_TRUE(WriteFileAtomically(disk, "text", "some text").ok());
  ASSERT_TRUE(
      WriteFileAtomically(disk, "array.npy", FileOf(FormatsGolden("versions.npz"), "v1.npy")).ok());
  ASSERT_TRUE(disk.MakeDirectories("directory").ok());
  EXPECT_TRUE(absl::IsNotFound(OpenWeights(disk, "nothing").status()));
  EXPECT_TRUE(absl::IsUnimplemented(OpenWeights(disk, "text").status()));
  EXPECT_TRUE(absl::IsUnimplemented(OpenWeights(disk, "directory").status()));
  EXPECT_THAT(std::string(OpenWeights(disk, "array.npy").status().message()),
              HasSubstr("numpy.savez"));
}

}  // namespace
}  // namespace cohort
