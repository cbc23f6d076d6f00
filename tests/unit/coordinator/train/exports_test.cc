// The files in which a trained model goes out, beside what Keras 2.15 and 3.15 wrote of the same
// models (tests/golden/models/pack_files.py, pack_restore.py, make_parts.py).

#include "coordinator/train/exports.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/temporary_file.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/job/keras_file.h"
#include "coordinator/train/init_weights.h"
#include "coordinator/train/model_file.h"
#include "coordinator/train/offline_plan.h"
#include "coordinator/train/weight_groups.h"
#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/train/exports_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<Tensor> NoSlot(const proto::VariableLayout&, const std::string&) {
  return absl::InternalError("the optimizer has no state");
}
const TrainedState kNoState = {{}, 0, NoSlot};
const json kCompile = {{"optimizer", "SGD"}, {"loss", "mse"}};

// The groups and datasets of the layers of a file, with the names of layers and the elements.
struct Tree {
  std::map<std::string, std::string> groups;
  std::map<std::string, std::string> datasets;
};

Tree TreeOf(absl::string_view bytes) {
  Tree tree;
  const auto file = OpenHdf5(bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  for (const Hdf5Object& object : (*file)->objects()) {
    if (absl::StartsWith(object.path, "optimizer") || absl::StartsWith(object.path, "metrics")) {
      continue;
    }
    if (object.is_dataset) {
      const auto value = (*file)->Read(object);
      EXPECT_TRUE(value.ok()) << value.status();
      tree.datasets[object.path] = BytesOf(*value);
    } else {
      tree.groups[object.path] = Hdf5String(object, "name").value_or("");
    }
  }
  return tree;
}

// Expects the layers of a file as Keras wrote them. Groups of parts without variables, such as the
// softmax of an attention, may be missing.
void ExpectAsKeras(const Tree& ours, const Tree& keras) {
  EXPECT_EQ(ours.datasets, keras.datasets);
  for (const auto& [path, name] : ours.groups) {
    const auto found = keras.groups.find(path);
    ASSERT_NE(found, keras.groups.end()) << path;
    EXPECT_EQ(name, found->second) << path;
  }
  for (const auto& [path, name] : keras.groups) {
    const auto depth = std::count(path.begin(), path.end(), '/');
    const bool is_layer = depth < 2 || (depth == 2 && absl::EndsWith(path, "/vars"));
    if (is_layer) {
      EXPECT_TRUE(ours.groups.contains(path)) << path;
    }
  }
}

// The values of a file's variables.
std::map<std::string, Tensor> ValuesIn(MemoryFileSystem& disk, const JobSpec& job,
                                       const Plan& plan) {
  std::map<std::string, Tensor> values;
  const auto file = OpenWeights(disk, job.checkpoint.init_from.path);
  EXPECT_TRUE(file.ok()) << file.status();
  const auto matches = MatchInitFrom(*file, job, plan.variables);
  EXPECT_TRUE(matches.ok()) << matches.status();
  const std::vector<std::string> names = NamesOf(plan);
  for (const WeightMatch& match : matches->matched) {
    values[names[match.wanted]] = *ReadMatch(*file, match, DType::kFloat32);
  }
  return values;
}

// A saved model, and the files that a job with this model writes of the same weights.
struct Exported {
  MemoryFileSystem disk;
  std::map<std::string, Tensor> values;
};

void ExportSaved(const char* pack, const char* path, Exported& out) {
  Unpack(pack, out.disk);
  const size_t inputs = absl::StartsWith(pack, "saved")   ? 3
                        : absl::StartsWith(pack, "parts") ? 1
                                                          : 2;
  const auto job = Parse(out.disk, {{"keras", path}}, inputs,
                         {{"keras", "/out/m.keras"},
                          {"weights_h5", "/out/m.weights.h5"},
                          {"safetensors", "/out/m.safetensors"},
                          {"tf_checkpoint", "/out/m"}},
                         kCompile);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto plan = PlanOf(*job);
  ASSERT_TRUE(plan.ok()) << plan.status();
  out.values = ValuesIn(out.disk, *job, *plan);
  const ExportedModel model = {plan->predict, NamesOf(*plan)};
  ASSERT_EQ(out.values.size(), model.variables.size());
  EXPECT_TRUE(CheckExports(*job, model).ok()) << CheckExports(*job, model);
  const auto read = [&](const std::string& name) -> absl::StatusOr<Tensor> {
    return out.values.at(name);
  };
  const absl::Status written =
      WriteExports(out.disk, *job, model, {read, kNoState, absl::UnixEpoch()});
  ASSERT_TRUE(written.ok()) << written;
  // Keras itself can read the files as well: check_export.py says how.
  const std::string directory = absl::StrCat(testing::TempDir(), "cohort_exports_", pack, "_",
                                             absl::StrReplaceAll(path, {{"/", "_"}}));
  std::filesystem::create_directories(directory);
  for (const char* name :
       {"m.keras", "m.weights.h5", "m.safetensors", "m.index", "m.data-00000-of-00001"}) {
    std::ofstream(absl::StrCat(directory, "/", name), std::ios::binary)
        << *ReadFile(out.disk, absl::StrCat("/out/", name));
  }
  std::cout << "for tests/golden/models/check_export.py: " << directory << "\n";
}

// The parameter is a pack and a file in it.
class ExportsOfSavedModels : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ExportsOfSavedModels, AreWhatKerasWrote) {
  const auto& [pack, path] = GetParam();
  Exported exported;
  ExportSaved(pack, path, exported);
  if (HasFatalFailure()) return;
  auto& [disk, values] = exported;
  const std::map<std::string, std::string> keras = MembersOf(disk, path);
  const std::map<std::string, std::string> ours = MembersOf(disk, "/out/m.keras");
  const Tree expected = TreeOf(keras.at("model.weights.h5"));
  ExpectAsKeras(TreeOf(ours.at("model.weights.h5")), expected);
  ExpectAsKeras(TreeOf(*ReadFile(disk, "/out/m.weights.h5")), expected);
  json config = json::parse(keras.at("config.json"));
  config.erase("compile_config");
  EXPECT_EQ(json::parse(ours.at("config.json")), config);
  const json metadata = json::parse(ours.at("metadata.json"));
  EXPECT_EQ(metadata["keras_version"], json::parse(keras.at("metadata.json"))["keras_version"]);
  EXPECT_EQ(metadata["date_saved"], "1970-01-01@00:00:00");

  const auto tensors = OpenWeights(disk, "/out/m.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->entries.size(), values.size());
  for (size_t i = 0; i < tensors->entries.size(); ++i) {
    EXPECT_EQ(BytesOf(*tensors->source->Read(i)), BytesOf(values.at(tensors->entries[i].name)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportsOfSavedModels,
                         testing::Values(std::make_pair("saved_models.zip", "3.15.1/m.keras"),
                                         std::make_pair("saved_models.zip", "2.15.0/m.keras"),
                                         std::make_pair("parts.zip", "3.15.1/m.keras"),
                                         std::make_pair("parts.zip", "2.15.0/m.keras"),
                                         std::make_pair("restore_k3.15.zip", "m.keras"),
                                         std::make_pair("restore_k2.15.zip", "m.keras")));

const json kDense = {{"class_name", "Dense"}, {"config", {{"units", 2}}}};

json Sequential(const json& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
}

json Input(const json& shape, const std::string& dtype = "float32") {
  return {{"class_name", "InputLayer"}, {"config", {{"batch_shape", shape}, {"dtype", dtype}}}};
}

// Returns the configuration in the archive of a model that a person wrote.
json ConfigOf(const json& model) {
  MemoryFileSystem disk;
  const auto job = Parse(disk, model, 1, {{"keras", "/out/m.keras"}}, kCompile);
  EXPECT_TRUE(job.ok()) << job.status();
  const auto plan = PlanOf(*job);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::map<std::string, Tensor> values;
  for (const proto::VariableLayout& variable : plan->variables) {
    std::vector<int64_t> dims(variable.dims().begin(), variable.dims().end());
    values[variable.name()] = Tensor(DType::kFloat32, Shape(dims));
  }
  const auto read = [&](const std::string& name) -> absl::StatusOr<Tensor> {
    return values.at(name);
  };
  const absl::Status written = WriteExports(disk, *job, {plan->predict, NamesOf(*plan)},
                                            {read, kNoState, absl::UnixEpoch()});
  EXPECT_TRUE(written.ok()) << written;
  std::ofstream(absl::StrCat(testing::TempDir(), "cohort_handwritten.keras"), std::ios::binary)
      << *ReadFile(disk, "/out/m.keras");
  return json::parse(MembersOf(disk, "/out/m.keras").at("config.json"));
}

TEST(Exports, AModelThatAPersonWroteBecomesOneOfKeras3) {
  const json config = ConfigOf(Sequential({Input({nullptr, 3}), kDense}));
  EXPECT_EQ(config["module"], "keras");
  EXPECT_EQ(config["class_name"], "Sequential");
  const json& layers = config["config"]["layers"];
  ASSERT_EQ(layers.size(), 2u);
  for (const json& layer : layers) {
    EXPECT_EQ(layer["module"], "keras.layers");
    EXPECT_TRUE(layer["registered_name"].is_null());
  }
  EXPECT_EQ(layers[1]["config"]["name"], "dense");
  EXPECT_EQ(layers[1]["config"]["units"], 2);
}

TEST(Exports, KeysThatKeras3WritesOtherwiseAreChanged) {
  const json up = {{"class_name", "UpSampling1D"}, {"config", {{"size", 3}}}};
  const json config = ConfigOf(Sequential({Input({nullptr, 4, 3}), up, kDense}));
  EXPECT_EQ(config["config"]["layers"][1]["config"]["size"], 3);
}

TEST(Exports, WhatKerasDoesNotHaveIsRefusedByName) {
  MemoryFileSystem disk;
  const json bag = {{"class_name", "EmbeddingBag"},
                    {"config", {{"name", "tags"}, {"input_dim", 9}, {"output_dim", 2}}}};
  const json model = Sequential({Input({nullptr, 4}, "int32"), bag, kDense});
  const auto check = [&](const char* key, const char* path) {
    const auto job = Parse(disk, model, 1, {{key, path}}, kCompile);
    EXPECT_TRUE(job.ok()) << job.status();
    const auto plan = PlanOf(*job);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return CheckExports(*job, {plan->predict, NamesOf(*plan)});
  };
  EXPECT_THAT(std::string(check("keras", "m.keras").message()),
              AllOf(HasSubstr("export.keras: "), HasSubstr("'tags'"), HasSubstr("EmbeddingBag")));
  // The layer's variables alone have a place in any file.
  EXPECT_TRUE(check("weights_h5", "m.weights.h5").ok());
  EXPECT_TRUE(check("safetensors", "m.safetensors").ok());
}

TEST(WeightGroups, CountOfEachClassTheLayersOfKeras) {
  MemoryFileSystem disk;
  const json named = {{"class_name", "Dense"}, {"config", {{"name", "out"}, {"units", 1}}}};
  const auto job =
      Parse(disk, Sequential({Input({nullptr, 3}), kDense, named}), 1, json::object(), kCompile);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto groups = KerasWeightGroups(
      job->model, std::vector<std::string>{"dense/kernel", "dense/bias", "out/kernel", "out/bias"});
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_EQ((*groups)[0].path, "");
  EXPECT_EQ((*groups)[1].path, "layers/dense");
  EXPECT_EQ((*groups)[2].path, "layers/dense_1");
  EXPECT_EQ((*groups)[2].name, "out");
  EXPECT_THAT((*groups)[2].variables, ElementsAre("out/kernel", "out/bias"));

  const auto stray = KerasWeightGroups(job->model, std::vector<std::string>{"other/kernel"});
  EXPECT_TRUE(absl::IsInvalidArgument(stray.status()));
  EXPECT_THAT(std::string(stray.status().message()), HasSubstr("'other/kernel'"));
}

// The places are those that Keras 3.15's `_functional._operations` has for these models.
TEST(WeightGroups, CountTheOperationsThatKeras3AddsForMasks) {
  const auto layer = [](const char* type, const char* name, const json& config) {
    json named = config;
    named["name"] = name;
    return json{{"class_name", type}, {"config", named}};
  };
  const json lstm = layer("LSTM", "lstm", {{"units", 2}});
  const json dense = layer("Dense", "dense", {{"units", 2}});
  const json drop = layer("Dropout", "drop", {{"rate", 0.5}});
  const json masking = layer("Masking", "masking", json::object());
  const json words =
      layer("Embedding", "words", {{"input_dim", 9}, {"output_dim", 2}, {"mask_zero", true}});
  const json ids = Input({nullptr, 4}, "int32");
  const json rows = Input({nullptr, 4, 3});
  const auto place = [&](const json& layers, const std::string& variable) {
    MemoryFileSystem disk;
    const auto job = Parse(disk, Sequential(layers), 1, json::object(), kCompile);
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(WhyNoKeras3Ways(job->model), "");
    const auto groups = KerasWeightGroups(job->model, std::vector<std::string>{variable});
    EXPECT_TRUE(groups.ok()) << groups.status();
    for (const WeightGroup& group : *groups) {
      if (!group.variables.empty()) {
        return absl::StrCat(group.tracked3, "/", group.attributes3[0]);
      }
    }
    return std::string();
  };
  // input, words, not_equal, lstm, ...
  EXPECT_EQ(place({ids, words, lstm}, "lstm/lstm_cell/kernel"),
            "_functional/_operations/3/cell/kernel");
  EXPECT_EQ(place({ids, words, drop, lstm}, "words/embeddings"),
            "_functional/_operations/1/_embeddings");
  EXPECT_EQ(place({ids, words, drop, lstm}, "lstm/lstm_cell/kernel"),
            "_functional/_operations/4/cell/kernel");
  // input, not_equal, masking, any, lstm, dense
  EXPECT_EQ(place({rows, masking, lstm, dense}, "dense/kernel"),
            "_functional/_operations/5/_kernel");
  // input, masking, dense, not_equal, drop, any, lstm
  EXPECT_EQ(place({rows, masking, dense, drop, lstm}, "dense/kernel"),
            "_functional/_operations/2/_kernel");
  EXPECT_EQ(place({rows, masking, dense, drop, lstm}, "lstm/lstm_cell/kernel"),
            "_functional/_operations/6/cell/kernel");
  // No layer takes the mask.
  EXPECT_EQ(place({ids, words, layer("Flatten", "flat", json::object()), dense}, "dense/kernel"),
            "_functional/_operations/3/_kernel");
}

}  // namespace
}  // namespace cohort
