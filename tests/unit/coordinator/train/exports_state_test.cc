// The state of the optimizer in the files in which a trained model goes out, beside what Keras 2.15
// and 3.15 wrote of the same training (tests/golden/models/pack_restore.py).

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/object_graph.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/train/exports.h"
#include "coordinator/train/init_weights.h"
#include "coordinator/train/mnist_files.h"
#include "coordinator/train/optimizer_state.h"
#include "coordinator/train/weight_groups.h"
#include "nlohmann/json.hpp"
#include "proto/object_graph.pb.h"
#include "tests/unit/coordinator/train/exports_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Files that Keras wrote in the middle of one training.
struct Saved {
  const char* pack;         // "k2.15"
  const char* description;  // what is in the files, and how the training goes on
  const char* model;        // a file with the model, its weights and the optimizer's state
  const char* checkpoint;

  bool has_archive() const { return absl::EndsWith(model, ".keras"); }
};

std::ostream& operator<<(std::ostream& out, const Saved& saved) {
  return out << saved.pack << " " << saved.model;
}

const Saved kSaved[] = {{"k2.15", "restore", "m.keras", "ckpt"},
                        {"k2.15", "sgdm_restore", "sgdm_m.h5", "sgdm_ckpt"},
                        {"k2.15", "nomask_restore", "nomask_m.h5", "nomask_ckpt"},
                        {"k3.15", "restore", "m.keras", "ckpt"},
                        {"k3.15", "sgdm_restore", "sgdm_m.h5", "sgdm_ckpt"},
                        {"k3.15", "nomask_restore", "nomask_m.h5", "nomask_ckpt"}};

// A job that goes on from such a file, with all that its homes hold after they have read it.
struct Trained {
  MemoryFileSystem disk;
  JobSpec job;
  Plan plan;
  std::map<std::string, Tensor> values;
  std::map<std::pair<std::string, std::string>, Tensor> slots;
  int64_t steps = 0;
};

json CompileOf(const json& optimizer) {
  return {{"optimizer", optimizer},
          {"loss",
           {{"class_name", "SparseCategoricalCrossentropy"}, {"config", {{"from_logits", true}}}}}};
}

void Load(Trained& trained) {
  const auto file = OpenWeights(trained.disk, trained.job.checkpoint.init_from.path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto matches = MatchInitFrom(*file, trained.job, trained.plan.variables);
  ASSERT_TRUE(matches.ok()) << matches.status();
  std::vector<TrainedVariable> variables;
  for (const WeightMatch& match : matches->matched) {
    const proto::VariableLayout& layout = trained.plan.variables[match.wanted];
    trained.values[layout.name()] = *ReadMatch(*file, match, DType::kFloat32);
    if (layout.rule().op() != "assign_add") variables.push_back({&layout, match});
  }
  const auto found =
      FindOptimizerState(*file, variables, trained.job.compile.optimizer.learning_rate);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->state.has_value()) << found->why_not;
  trained.steps = found->state->step;
  for (const FoundSlot& slot : found->state->slots) {
    const TrainedVariable& variable = variables[slot.variable];
    trained.slots[{variable.layout->name(), slot.slot}] = *ReadSlot(*file, variable, slot);
  }
}

// Writes every file of the job into /out.
absl::Status Export(Trained& trained) {
  const auto read = [&](const std::string& name) -> absl::StatusOr<Tensor> {
    return trained.values.at(name);
  };
  const auto read_slot = [&](const proto::VariableLayout& variable,
                             const std::string& slot) -> absl::StatusOr<Tensor> {
    return trained.slots.at({variable.name(), slot});
  };
  return WriteExports(
      trained.disk, trained.job, {trained.plan.predict, NamesOf(trained.plan)},
      {read, {trained.plan.variables, trained.steps, read_slot}, absl::UnixEpoch()});
}

const json kExports = {
    {"keras", "/out/m.keras"}, {"weights_h5", "/out/m.weights.h5"}, {"tf_checkpoint", "/out/m"}};
const char* const kFiles[] = {"m.keras", "m.weights.h5", "m.index", "m.data-00000-of-00001"};

std::string PackOf(const Saved& saved) {
  return absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/restore_", saved.pack, ".zip");
}

json GoldenOf(const Saved& saved) {
  return json::parse(FileOf(PackOf(saved), absl::StrCat(saved.description, ".json")));
}

void ExportSaved(const Saved& saved, Trained& trained) {
  Unpack(absl::StrCat("restore_", saved.pack, ".zip"), trained.disk);
  const json golden = GoldenOf(saved);
  // Keras 3 does not load the form in which it writes operations into its own .h5 files.
  const json model = saved.has_archive() ? json(saved.model) : golden["config"];
  auto job = Parse(trained.disk, {{"keras", model}}, 2, kExports, CompileOf(golden["optimizer"]));
  ASSERT_TRUE(job.ok()) << job.status();
  trained.job = *std::move(job);
  trained.job.checkpoint.init_from.path = saved.model;
  auto plan = PlanOf(trained.job);
  ASSERT_TRUE(plan.ok()) << plan.status();
  trained.plan = *std::move(plan);
  Load(trained);
  if (testing::Test::HasFatalFailure()) return;
  const absl::Status written = Export(trained);
  ASSERT_TRUE(written.ok()) << written;
}

// The values of a file of weights by their paths.
std::map<std::string, std::string> DatasetsOf(absl::string_view bytes) {
  std::map<std::string, std::string> datasets;
  const auto file = OpenHdf5(bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  for (const Hdf5Object& object : (*file)->objects()) {
    if (!object.is_dataset || absl::StartsWith(object.path, "metrics")) continue;
    datasets[object.path] = BytesOf(*(*file)->Read(object));
  }
  return datasets;
}

// The ways in the object graph of a checkpoint to values, with the values.
std::map<std::string, std::string> WaysIn(MemoryFileSystem& disk, const std::string& prefix) {
  const auto reader = BundleReader::Open(disk, prefix);
  EXPECT_TRUE(reader.ok()) << reader.status();
  proto::TrackedObjectGraph graph;
  EXPECT_TRUE(graph.ParseFromString((*reader)->ReadStrings(kObjectGraphKey)->at(0)));
  std::map<std::string, std::string> ways;
  std::set<int> above;
  const std::function<void(int, const std::string&)> walk = [&](int node, const std::string& way) {
    if (!above.insert(node).second) return;
    for (const auto& value : graph.nodes(node).attributes()) {
      const auto tensor = (*reader)->Read(value.checkpoint_key());
      EXPECT_TRUE(tensor.ok()) << tensor.status();
      ways[way] = BytesOf(*tensor);
    }
    for (const auto& child : graph.nodes(node).children()) {
      walk(child.node_id(), absl::StrCat(way, "/", child.local_name()));
    }
    above.erase(node);
  };
  walk(0, "");
  return ways;
}

class ExportsOfTrained : public testing::TestWithParam<Saved> {};

TEST_P(ExportsOfTrained, HaveTheStateThatKerasWrote) {
  const Saved saved = GetParam();
  Trained trained;
  ExportSaved(saved, trained);
  if (HasFatalFailure()) return;
  const auto ours = MembersOf(trained.disk, "/out/m.keras").at("model.weights.h5");
  EXPECT_EQ(DatasetsOf(ours), DatasetsOf(*ReadFile(trained.disk, "/out/m.weights.h5")));
  if (!saved.has_archive()) return;
  const auto keras = MembersOf(trained.disk, saved.model);
  EXPECT_EQ(DatasetsOf(ours), DatasetsOf(keras.at("model.weights.h5")));
  EXPECT_EQ(DatasetsOf(ours), DatasetsOf(*ReadFile(trained.disk, "m.weights.h5")));
}

// Returns whether the program whose ways are `theirs` finds each of these values: by value, since
// those of one training differ. A value has several ways, one of which is enough.
std::map<std::string, bool> FoundBy(const std::map<std::string, std::string>& values,
                                    const std::map<std::string, std::string>& theirs) {
  std::map<std::string, bool> is_found;
  for (const auto& [way, value] : values) {
    const auto found = theirs.find(way);
    if (found != theirs.end()) {
      EXPECT_EQ(found->second, value) << way;
    }
    is_found[value] = is_found[value] || found != theirs.end();
  }
  return is_found;
}

// TensorFlow's assert_consumed() holds if every value of the checkpoint is at a way that the
// program's objects have, and every object with a value has one in the checkpoint. The objects are
// those of the checkpoint that Keras wrote.
TEST_P(ExportsOfTrained, HaveTheWaysOfKerasToItsValues) {
  const Saved saved = GetParam();
  Trained trained;
  ExportSaved(saved, trained);
  if (HasFatalFailure()) return;
  auto keras = WaysIn(trained.disk, saved.checkpoint);
  auto ours = WaysIn(trained.disk, "/out/m");
  EXPECT_EQ(ours.erase("/save_counter"), 1u);  // of the Checkpoint itself
  // The steps and the rate are values too.
  const size_t expected = trained.values.size() + trained.slots.size() + 2;
  for (const auto& found : {FoundBy(keras, ours), FoundBy(ours, keras)}) {
    EXPECT_EQ(found.size(), expected);
    for (const auto& [value, is_found] : found) EXPECT_TRUE(is_found) << value;
  }
}

// Without an object graph, the same bytes are found by the names.
TEST_P(ExportsOfTrained, HaveThePlainNames) {
  Trained trained;
  ExportSaved(GetParam(), trained);
  if (HasFatalFailure()) return;
  const auto reader = BundleReader::Open(trained.disk, "/out/m");
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const auto& [name, value] : trained.values) {
    const auto named = (*reader)->Read(name);
    ASSERT_TRUE(named.ok()) << named.status();
    EXPECT_EQ(BytesOf(*named), BytesOf(value)) << name;
  }
  const std::string op = trained.job.compile.optimizer.op;
  for (const auto& [key, value] : trained.slots) {
    const auto named =
        (*reader)->Read(absl::StrCat(key.first, "/.OPTIMIZER_SLOT/", op, "/", key.second));
    ASSERT_TRUE(named.ok()) << named.status();
    EXPECT_EQ(BytesOf(*named), BytesOf(value)) << key.first << " " << key.second;
  }
  EXPECT_EQ((*reader)->Read("global_step")->span<int64_t>()[0], trained.steps);
}

// A job that begins with what a job has exported has the same state.
TEST_P(ExportsOfTrained, AreReadBackWithTheState) {
  Trained trained;
  ExportSaved(GetParam(), trained);
  if (HasFatalFailure()) return;
  for (const char* path : {"/out/m", "/out/m.keras", "/out/m.weights.h5"}) {
    Trained again;
    for (const char* file : kFiles) {
      const std::string name = absl::StrCat("/out/", file);
      ASSERT_TRUE(again.disk.MakeDirectories("/out").ok());
      ASSERT_TRUE(WriteFileAtomically(again.disk, name, *ReadFile(trained.disk, name)).ok());
    }
    again.job = trained.job;
    again.plan = trained.plan;
    again.job.checkpoint.init_from.path = path;
    Load(again);
    if (HasFatalFailure()) return;
    EXPECT_EQ(again.steps, trained.steps);
    ASSERT_EQ(again.slots.size(), trained.slots.size()) << path;
    for (const auto& [key, value] : trained.slots) {
      EXPECT_EQ(BytesOf(again.slots.at(key)), BytesOf(value)) << key.first << " " << key.second;
    }
  }
}

// What Keras did with the files stands beside their checksums (check_export_state.py).
TEST_P(ExportsOfTrained, AreTheBytesThatKerasWentOnFrom) {
  const Saved saved = GetParam();
  Trained trained;
  ExportSaved(saved, trained);
  if (HasFatalFailure()) return;
  const std::string name = absl::StrCat(saved.pack, "_", saved.description);
  const std::string directory = absl::StrCat(testing::TempDir(), "cohort_state_", name);
  std::filesystem::create_directories(directory);
  json sums;
  for (const char* file : kFiles) {
    const std::string path = absl::StrCat("/out/", file);
    std::ofstream(absl::StrCat(directory, "/", file), std::ios::binary)
        << *ReadFile(trained.disk, path);
    sums[file] = *Sha256OfFile(trained.disk, path);
  }
  std::cout << "for tests/golden/models/check_export_state.py: " << directory << "\n";
  const json golden = json::parse(
      BytesOf(std::string(COHORT_SOURCE_DIR "/tests/golden/models/restored_exports.json")));
  ASSERT_TRUE(golden.contains(name)) << sums.dump(1);
  EXPECT_EQ(sums, golden[name]["sha256"]) << "see check_export_state.py";
  EXPECT_GT(golden[name]["restored"].size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ExportsOfTrained, testing::ValuesIn(kSaved));

}  // namespace
}  // namespace cohort
