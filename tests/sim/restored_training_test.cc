// Files that Keras 2.15, Keras 3.15 and TensorFlow 1 wrote in the middle of a training
// (tests/golden/models/pack_restore.py): a job that begins with one goes on with the losses that
// these programs had next, on two parameter servers that have every variable in slices.

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "tests/sim/daemon_sim.h"
#include "tests/sim/golden_data.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr double kLossTolerance = 1e-5;
constexpr double kWeightTolerance = 2e-5;

// What one file says of a training: its weights, and how the training goes on.
struct Golden {
  std::string pack;  // "k2.15"
  json value;
  json model;
  json optimizer;
};

// A cluster with the files of the pack and the data of the next steps on its disk.
class Restored {
 public:
  explicit Restored(const Golden& golden) : Restored(golden, 2, {}) {}
  Restored(const Golden& golden, int ps, std::vector<std::string> sets)
      : golden_(golden), sim_(1, ps, 1, std::move(sets), JobOf(golden), Disks::kShared) {
    sim_.cluster().network().SetWatcher(&losses_);
    for (const auto& [path, bytes] : FilesOf(absl::StrCat(
             COHORT_SOURCE_DIR "/tests/golden/models/restore_", golden.pack, ".zip"))) {
      Write(path, bytes);
    }
    const json& next = golden.value["next"];
    const size_t inputs = next[0]["inputs"].size();
    for (size_t i = 0; i <= inputs; ++i) {
      std::vector<json> tensors;
      for (const json& step : next) {
        tensors.push_back(i < inputs ? step["inputs"][i] : step["target"]);
      }
      Write(absl::StrCat("/data/", i), IdxOf(tensors));
    }
  }

  FileSystem& disk() { return sim_.cluster().FilesOf("chief:0"); }
  void Write(const std::string& path, const std::string& bytes) {
    EXPECT_TRUE(disk().MakeDirectories(DirectoryOf(path)).ok());
    EXPECT_TRUE(WriteFileAtomically(disk(), path, bytes).ok());
  }

  // Trains the next steps, from the file on. Returns what the coordinator said.
  std::string Train(const std::string& file, bool weights_only) {
    const json init = {{"path", file}, {"weights_only", weights_only}};
    testing::internal::CaptureStderr();
    result_ = sim_.Run({absl::StrCat("checkpoint.init_from=", init.dump())});
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(result_.code, kExitOk) << result_.error << said;
    return said;
  }
  const std::vector<double>& losses() const { return losses_.losses(); }
  json summary() const { return SummaryOf(result_); }

  // Compares the weights of all layers but some with those of the checkpoint at the end.
  void ExpectWeights(const json& weights, const std::set<std::string>& but) {
    const auto reader = BundleReader::Open(disk(), summary()["checkpoint"]);
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const json& weight : weights) {
      if (weight.contains("layer") && but.contains(weight["layer"])) continue;
      std::string name = weight["name"];
      if (weight.contains("layer"))
        name = absl::StrCat(weight["layer"].get<std::string>(), "/", name);
      const auto value = (*reader)->Read(name);
      ASSERT_TRUE(value.ok()) << value.status();
      const std::vector<float> expected = weight["data"];
      ASSERT_EQ(value->num_elements(), static_cast<int64_t>(expected.size())) << name;
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(value->span<float>()[i], expected[i], kWeightTolerance) << name << " " << i;
      }
    }
  }

 private:
  static std::string JobOf(const Golden& golden) {
    const json& next = golden.value["next"];
    json paths = json::array();
    for (size_t i = 0; i <= next[0]["inputs"].size(); ++i)
      paths.push_back(absl::StrCat("/data/", i));
    const json loss = {{"class_name", "SparseCategoricalCrossentropy"},
                       {"config", {{"from_logits", true}}}};
    const json job = {
        {"name", "restored"},
        {"model", golden.model},
        {"compile", {{"optimizer", golden.optimizer}, {"loss", loss}}},
        {"data", {{"train", {{"class_name", "IDX"}, {"config", {{"paths", paths}}}}}}},
        {"fit",
         {{"batch_size", next[0]["target"]["shape"][0]},
          {"shuffle", false},
          {"closures_in_flight", 1}}},
        {"checkpoint", {{"directory", "/saved"}}},
        {"recovery", {{"directory", "/recovery"}, {"interval_ms", 3600000}}},
        {"strategy",
         {{"type", "parameter_server"},
          {"partitioner",
           {{"class_name", "FixedShardsPartitioner"}, {"config", {{"num_shards", 2}}}}}}}};
    return job.dump();
  }

  const Golden golden_;
  StepLosses losses_;
  DaemonSim sim_;
  CoordinatorDaemon::Result result_;
};

json JsonIn(const std::string& pack, const std::string& name) {
  return json::parse(
      FileOf(absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/restore_", pack, ".zip"), name));
}

Golden KerasGolden(const std::string& pack, const std::string& name) {
  Golden golden{pack, JsonIn(pack, absl::StrCat(name, ".json")), {}, {}};
  golden.model = {{"keras", golden.value["config"]}};
  golden.optimizer = golden.value["optimizer"];
  return golden;
}

Golden Tf1Golden(const std::string& name) {
  Golden golden{"tf1", JsonIn("tf1", absl::StrCat(name, ".json")), {}, {}};
  const auto dense = [](const char* layer, int units, const char* activation) {
    return json{{"class_name", "Dense"},
                {"config", {{"name", layer}, {"units", units}, {"activation", activation}}}};
  };
  golden.model = {
      {"class_name", "Sequential"},
      {"config", {{"layers", {dense("layer1", 10, "relu"), dense("layer2", 3, "linear")}}}}};
  golden.model["config"]["layers"][0]["config"]["input_shape"] = {6};
  if (absl::StartsWith(name, "adam")) {
    golden.optimizer = {{"class_name", "Adam"},
                        {"config", {{"learning_rate", 0.01}, {"epsilon", 1e-8}}}};
  } else if (name == "momentum") {
    golden.optimizer = {{"class_name", "SGD"},
                        {"config", {{"learning_rate", 0.05}, {"momentum", 0.9}}}};
  } else {
    golden.optimizer = {
        {"class_name", "RMSprop"},
        {"config",
         {{"learning_rate", 0.005}, {"rho", 0.9}, {"momentum", 0.5}, {"epsilon", 1e-10}}}};
  }
  return golden;
}

std::vector<double> NextLosses(const json& golden) {
  std::vector<double> losses;
  for (const json& step : golden["next"]) losses.push_back(step["loss"]);
  return losses;
}

std::vector<double> LossesWithoutSlots(const json& golden) {
  return golden["losses_if_slots_lost"].get<std::vector<double>>();
}

// Returns whether the program that wrote the file squares the gradients of an id that a batch has
// several times before it adds them up, as Keras 3 does with Adam. Then the rows of the embedding
// part from ours, and all else follows slowly.
bool SquaresRowsFirst(const Golden& golden) {
  return golden.pack == "k3.15" && golden.optimizer["class_name"] == "Adam";
}

// How near losses come to the expected ones: the first `exact` up to the tolerance, later ones up
// to a part of the distance between the losses with and without slots.
struct Closeness {
  size_t exact = 0;
  double part = 0;
};
void ExpectLosses(const std::vector<double>& losses, const std::vector<double>& expected,
                  const json& golden, const Closeness& close) {
  const std::vector<double> next = NextLosses(golden);
  const std::vector<double> without = LossesWithoutSlots(golden);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    const double part = close.part * std::abs(next[i] - without[i]);
    EXPECT_NEAR(losses[i], expected[i], i < close.exact ? kLossTolerance : part) << "step " << i;
  }
}

// Expects that the training goes on as it would have in the program that wrote the file.
void ExpectGoesOn(const Golden& golden, const std::string& file, int64_t steps) {
  SCOPED_TRACE(absl::StrCat(golden.pack, " ", file));
  const std::vector<double> next = NextLosses(golden.value);
  Restored restored(golden);
  const std::string said = restored.Train(file, /*weights_only=*/false);
  EXPECT_THAT(said, HasSubstr(absl::StrCat("optimizer_state_taken file=", file)));
  EXPECT_THAT(said, Not(HasSubstr("optimizer_state_not_taken")));
  const bool parts = SquaresRowsFirst(golden);
  // The first loss comes of the weights alone, the second of slots and step, too.
  ExpectLosses(restored.losses(), next, golden.value, {parts ? 2 : next.size(), 0.01});
  EXPECT_EQ(restored.summary()["global_step"], steps + static_cast<int64_t>(next.size()));
  EXPECT_EQ(restored.summary()["steps"], next.size());
  restored.ExpectWeights(golden.value["weights_after_next"],
                         parts ? std::set<std::string>{"emb", "lstm"} : std::set<std::string>());
}

// Expects that the optimizer begins anew.
void ExpectBeginsAnew(const Golden& golden, const std::string& file, bool weights_only) {
  SCOPED_TRACE(absl::StrCat(golden.pack, " ", file));
  Restored restored(golden);
  const std::string said = restored.Train(file, weights_only);
  EXPECT_EQ(absl::StrContains(said, "optimizer_state_not_taken"), !weights_only);
  EXPECT_THAT(said, Not(HasSubstr("optimizer_state_taken")));
  const std::vector<double> without = LossesWithoutSlots(golden.value);
  ExpectLosses(restored.losses(), without, golden.value,
               {SquaresRowsFirst(golden) ? 1 : without.size(), 0.1});
  EXPECT_EQ(restored.summary()["global_step"], without.size());
}

// The parameter is "pack what": what.json says how the training goes on from its files.
class RestoredTraining : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RestoredTraining, GoesOnFromEveryFileOptimizerIncluded) {
  const Golden golden = KerasGolden(GetParam().first, GetParam().second);
  // These hold weights alone.
  const std::set<std::string> stateless = {"k3.15 saved_variables/variables"};
  for (const json& one : golden.value["files"]) {
    const std::string file = one["file"];
    if (stateless.contains(absl::StrCat(golden.pack, " ", file))) {
      ExpectBeginsAnew(golden, file, /*weights_only=*/false);
    } else {
      ExpectGoesOn(golden, file, golden.value["iterations"]);
    }
  }
}

TEST_P(RestoredTraining, BeginsTheOptimizerAnewIfTheWeightsAloneAreWanted) {
  const Golden golden = KerasGolden(GetParam().first, GetParam().second);
  ExpectBeginsAnew(golden, golden.value["files"][0]["file"], /*weights_only=*/true);
}

INSTANTIATE_TEST_SUITE_P(All, RestoredTraining, testing::ValuesIn(RestoredModels()));

// Rows without a gradient wait, and are made up for from the step on that the file was saved at.
TEST(RestoredTrainingOfKeras2, RowsThatWaitHaveMissedNoStepBeforeTheFile) {
  Golden golden = KerasGolden("k2.15", "sgdm_restore");
  golden.optimizer["config"]["sparse_updates"] = {{"emb/embeddings", "lazy_compensated"}};
  Restored restored(golden);
  const std::string said = restored.Train("sgdm_ckpt", /*weights_only=*/false);
  EXPECT_THAT(said, HasSubstr("optimizer_state_taken"));
  const std::vector<double> next = NextLosses(golden.value);
  ExpectLosses(restored.losses(), next, golden.value, {next.size(), 0});
}

TEST(RestoredTrainingOfTensorFlow1, GoesOnWithItsSlots) {
  for (const char* name : {"adam", "adam_partitioned", "momentum", "rmsprop"}) {
    const Golden golden = Tf1Golden(name);
    ExpectGoesOn(golden, name, golden.value["trained_steps"]);
    // TensorFlow 1 begins the squares of RMSProp as ones, Keras as zeros.
    if (golden.optimizer["class_name"] != "RMSprop") {
      ExpectBeginsAnew(golden, name, /*weights_only=*/true);
    }
  }
}

// The worker that trains is the home of the variables then.
TEST(RestoredTrainingOfTensorFlow1, GoesOnWithoutParameterServers) {
  const Golden golden = Tf1Golden("adam_partitioned");
  Restored restored(golden, 0, {R"(strategy={"type": "one_device"})"});
  EXPECT_THAT(restored.Train("adam_partitioned", /*weights_only=*/false),
              HasSubstr("optimizer_state_taken"));
  const std::vector<double> next = NextLosses(golden.value);
  ExpectLosses(restored.losses(), next, golden.value, {next.size(), 0});
  restored.ExpectWeights(golden.value["weights_after_next"], {});
}

// What a job exports has the slots of all slices, from whichever homes they come.
TEST(ExportedTraining, HasTheSlotsOfTheCheckpoint) {
  const Golden golden = KerasGolden("k2.15", "restore");
  const std::string exports = R"(export={"tf_checkpoint": "/out/m"})";
  const std::string one_device = R"(strategy={"type": "one_device"})";
  for (const bool has_ps : {true, false}) {
    Restored restored(
        golden, has_ps ? 2 : 0,
        has_ps ? std::vector<std::string>{exports} : std::vector<std::string>{exports, one_device});
    EXPECT_THAT(restored.Train("ckpt", /*weights_only=*/false),
                HasSubstr("optimizer_state_exported optimizer=Adam steps=30"));
    const auto saved = BundleReader::Open(restored.disk(), restored.summary()["checkpoint"]);
    const auto exported = BundleReader::Open(restored.disk(), "/out/m");
    ASSERT_TRUE(saved.ok() && exported.ok()) << saved.status() << exported.status();
    size_t slots = 0;
    for (const auto& [name, tensor] : (*saved)->tensors()) {
      if (!absl::StrContains(name, kSlotInfix)) continue;
      const auto expected = (*saved)->Read(name);
      const auto value = (*exported)->Read(name);
      ASSERT_TRUE(expected.ok() && value.ok()) << expected.status() << value.status();
      EXPECT_EQ(value->span<float>(), expected->span<float>()) << name;
      ++slots;
    }
    EXPECT_EQ(slots, 2 * golden.value["slots"].size());
    EXPECT_EQ((*exported)->Read("global_step")->span<int64_t>()[0], 30);
  }
}

// Another optimizer has no use for these slots.
TEST(RestoredTrainingOfTensorFlow1, AnotherOptimizersSlotsAreNotTaken) {
  Golden golden = Tf1Golden("momentum");
  golden.optimizer = Tf1Golden("adam").optimizer;
  Restored restored(golden);
  const std::string said = restored.Train("momentum", /*weights_only=*/false);
  EXPECT_THAT(said, HasSubstr("optimizer_state_not_taken"));
  EXPECT_THAT(said, HasSubstr("the file has no slot m of the variable layer1/kernel"));
  EXPECT_EQ(restored.summary()["global_step"], 5);
}

}  // namespace
}  // namespace cohort
