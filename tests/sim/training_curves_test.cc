// The training curves of eight models by three optimizers in Keras 2.15 and 3.15
// (tests/golden/models/pack_curves.py): a job with the same weights and batches has Keras's loss in
// every step, and Keras's weights, metrics and evaluation afterwards.
//
// How far a number may be off was measured with Keras alone: ten times the distance between its own
// float32 and float64, or between two ways of its own to add up. A curve is compared as long as
// this is below 0.1 % of the loss ("meaningful_steps"), in both versions of Keras: they have the
// same weights and batches, and the ResNet by RMSprop meets a rectifier so near to its bend in step
// 3 that Keras 3.15's float32 goes on with another loss than its float64, and so do we.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/checkpoint/bundle.h"
#include "tests/sim/daemon_sim.h"
#include "tests/sim/golden_data.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kSmallShards[] = R"({
  "type": "parameter_server",
  "partitioner": {"class_name": "FixedShardsPartitioner", "config": {"num_shards": 2}}
})";
constexpr char kOneDevice[] = R"({"type": "one_device"})";
constexpr char kTwoReplicas[] = R"({"type": "mirrored", "devices": ["cpu:0", "cpu:1"]})";

json Curves(const std::string& keras, const std::string& model) {
  return json::parse(
      FileOf(absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/curves_k", keras, ".zip"),
             model + ".json"));
}

// Replaces a rule that draws random numbers by the numbers: as numpy's RandomState draws them.
json Drawn(json tensor) {
  const std::string rule = tensor.at("rule");
  if (rule == "data") return tensor;
  std::mt19937 generator(tensor.at("seed").get<uint32_t>());
  int64_t count = 1;
  for (const int64_t dim : tensor.at("shape")) count *= dim;
  json data = json::array();
  for (int64_t i = 0; i < count; ++i) {
    const double a = generator() >> 5;
    const double b = generator() >> 6;
    const double drawn = (a * 67108864.0 + b) / 9007199254740992.0;
    if (rule == "int") {
      data.push_back(tensor["first"].get<int64_t>() +
                     static_cast<int64_t>(drawn * tensor["n"].get<double>()));
    } else {
      const double low = tensor["low"];
      data.push_back(static_cast<float>(low + (tensor["high"].get<double>() - low) * drawn));
    }
  }
  tensor["data"] = std::move(data);
  tensor["dtype"] = rule == "int" ? "int32" : "float32";
  return tensor;
}

std::string NameOf(const json& weight) {
  return absl::StrCat(weight["layer"].get<std::string>(), "/", weight["name"].get<std::string>());
}

// Returns the weights as a safetensors file.
std::string SafetensorsOf(const json& weights) {
  json header;
  std::string bytes;
  for (const json& weight : weights) {
    const size_t begin = bytes.size();
    const json drawn = Drawn(weight);
    for (const json& element : drawn["data"]) {
      const float value = element;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header[NameOf(weight)] = {
        {"dtype", "F32"}, {"shape", weight["shape"]}, {"data_offsets", {begin, bytes.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text + bytes;
}

// Makes every BatchNormalization normalize by the examples of all replicas.
void Synchronize(json& model) {
  for (json& layer : model["config"]["layers"]) {
    if (layer["class_name"] == "BatchNormalization") layer["config"]["synchronized"] = true;
  }
}

// A model, an optimizer and a version of Keras.
struct Curve {
  std::string keras;
  std::string model;
  std::string optimizer;
};
void PrintTo(const Curve& curve, std::ostream* out) {
  *out << curve.model << " by " << curve.optimizer << " in Keras " << curve.keras;
}

// A training of a curve under one strategy, with Keras's numbers.
class CurveJob {
 public:
  CurveJob(const Curve& curve, const std::string& strategy)
      : golden_(Curves(curve.keras, curve.model)),
        run_(RunOf(curve)),
        other_(RunOf({curve.keras == "2.15" ? "3.15" : "2.15", curve.model, curve.optimizer})),
        // The variance of the population, where that of Keras 2.15's kernel for one replica is of
        // the sample.
        other_variance_(strategy == kTwoReplicas && curve.keras == "2.15"),
        sim_(1, strategy == kSmallShards ? 2 : 0, 1, {absl::StrCat("strategy=", strategy)},
             JobOf(curve, strategy), Disks::kShared) {
    sim_.cluster().network().SetWatcher(&losses_);
    const json data = DataOf();
    for (size_t i = 0; i < data.size(); ++i) {
      Write(absl::StrCat("/data/", i), IdxOf({Drawn(data[i])}));
    }
    Write("/start.safetensors", SafetensorsOf(golden_["start_weights"]));
  }

  // Returns the number of steps whose losses have a meaning.
  size_t meaningful_steps() const {
    return std::min(run_["meaningful_steps"].get<size_t>(),
                    other_["meaningful_steps"].get<size_t>());
  }

  // Trains for a number of epochs and compares the losses of the steps.
  void Train(int epochs) {
    testing::internal::CaptureStderr();
    result_ = sim_.Run({absl::StrCat("fit.epochs=", epochs)});
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_EQ(result_.code, kExitOk) << result_.error << said;
    const size_t steps = static_cast<size_t>(epochs) * golden_["batches"].get<size_t>();
    ASSERT_GE(losses_.losses().size(), steps);
    for (size_t i = 0; i < std::min(steps, meaningful_steps()); ++i) {
      const double spread =
          std::max(run_["spread"][i].get<double>(), other_["spread"][i].get<double>());
      ASSERT_NEAR(losses_.losses()[i], run_["loss"][i].get<double>(), spread) << "step " << i;
    }
  }

  // Compares the summary after `epochs` epochs. The evaluations stand behind every 20 steps.
  void ExpectReports(int epochs) {
    const json summary = SummaryOf(result_);
    for (const auto& [when, reports] :
         {std::pair("train_", run_["train_metrics"]), std::pair("test_", run_["evaluate"])}) {
      if (other_variance_ && when == std::string("test_")) continue;
      for (const auto& [name, report] : reports.items()) {
        // The file has the mean of the areas of the epoch's batches; fit reports that of the epoch.
        if (name == "auc" && when == std::string("train_")) continue;
        const std::string key = when + name;
        ASSERT_TRUE(summary.contains(key)) << key << " " << summary;
        const auto last = static_cast<size_t>(epochs - 1);
        EXPECT_NEAR(summary[key].get<double>(), report["value"][last].get<double>(),
                    report["spread"][last].get<double>())
            << key;
      }
    }
  }

  // Compares the weights after the first epoch with Keras's, of which every n-th is known.
  void ExpectWeights() {
    const auto reader =
        BundleReader::Open(sim_.cluster().FilesOf("chief:0"), SummaryOf(result_)["checkpoint"]);
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const json& weight : run_["weights20"]) {
      if (other_variance_ && absl::EndsWith(NameOf(weight), "/moving_variance")) continue;
      const auto value = (*reader)->Read(NameOf(weight));
      ASSERT_TRUE(value.ok()) << value.status();
      const std::vector<double> expected = weight["data"];
      const size_t stride = weight["stride"];
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(value->span<float>()[i * stride], expected[i], weight["spread"].get<double>())
            << NameOf(weight) << " " << i * stride;
      }
    }
  }

 private:
  // Returns the numbers to compare with. Keras 3.15 squares the gradients of an id that a batch has
  // several times before it adds them up; we add them up first, as Keras 2.15 does, whose curves of
  // these models have the same weights and batches.
  static json RunOf(const Curve& curve) {
    const bool has_ids =
        curve.model == "bigru" || curve.model == "transformer" || curve.model == "widedeep";
    const bool squares = curve.optimizer != "sgd_momentum";
    return Curves(has_ids && squares ? "2.15" : curve.keras, curve.model)["runs"][curve.optimizer];
  }

  json DataOf() const {
    json data = golden_["inputs"];
    for (const json& target : golden_["targets"]) data.push_back(target);
    return data;
  }

  std::string JobOf(const Curve& curve, const std::string& strategy) const {
    json model = golden_["config"];
    if (strategy == kTwoReplicas) Synchronize(model);
    json paths = json::array();
    for (size_t i = 0; i < DataOf().size(); ++i) paths.push_back(absl::StrCat("/data/", i));
    const json files = {{"class_name", "IDX"}, {"config", {{"paths", paths}}}};
    json metrics = {"accuracy"};
    if (curve.model == "widedeep") metrics.push_back("auc");
    if (curve.model == "multiout") {
      metrics = {{"cls", {"accuracy"}}, {"reg", {"mae", "mse"}}, {"bin", {"accuracy"}}};
    }
    const json optimizer = Curves(curve.keras, curve.model)["runs"][curve.optimizer]["optimizer"];
    json compile = {{"optimizer", optimizer}, {"loss", golden_["loss"]}, {"metrics", metrics}};
    if (!golden_["loss_weights"].is_null()) compile["loss_weights"] = golden_["loss_weights"];
    const json job = {
        {"name", "curve"},
        {"model", {{"keras", model}}},
        {"compile", compile},
        {"data", {{"train", files}, {"test", files}}},
        {"fit", {{"batch_size", golden_["batch"]}, {"shuffle", false}, {"closures_in_flight", 1}}},
        {"checkpoint", {{"directory", "/saved"}, {"init_from", {{"path", "/start.safetensors"}}}}}};
    return job.dump();
  }

  void Write(const std::string& path, const std::string& bytes) {
    FileSystem& disk = sim_.cluster().FilesOf("chief:0");
    EXPECT_TRUE(disk.MakeDirectories(DirectoryOf(path)).ok());
    EXPECT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }

  const json golden_;
  const json run_;
  const json other_;  // the same run in the other version
  const bool other_variance_;
  StepLosses losses_;
  DaemonSim sim_;
  CoordinatorDaemon::Result result_;
};

std::vector<Curve> AllCurves() {
  std::vector<Curve> curves;
  for (const char* keras : {"2.15", "3.15"}) {
    for (const char* model :
         {"mlp", "cnn", "resnet", "lstm", "bigru", "transformer", "widedeep", "multiout"}) {
      for (const char* optimizer : {"sgd_momentum", "adam", "rmsprop"}) {
        curves.push_back({keras, model, optimizer});
      }
    }
  }
  return curves;
}

std::string TestName(const testing::TestParamInfo<Curve>& info) {
  return absl::StrReplaceAll(
      absl::StrCat(info.param.model, "_", info.param.optimizer, "_", info.param.keras),
      {{".", "_"}});
}

class TrainingCurve : public testing::TestWithParam<Curve> {
 protected:
  // Another order of additions comes to the other side of a rectifier's bend sooner or later: the
  // convolutional network by Adam in step 84 under a sanitizer, the ResNet with AVX2.
  void SetUp() override {
#ifdef COHORT_SANITIZED
    GTEST_SKIP() << "needs a build without sanitizers";
#endif
    if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "needs AVX-512";
  }

  // Compares all that Keras's numbers have a meaning for, up to `epochs` epochs.
  static void ExpectKeras(const std::string& strategy, int epochs) {
    {
      CurveJob first(GetParam(), strategy);
      ASSERT_NO_FATAL_FAILURE(first.Train(1));
      if (first.meaningful_steps() >= 20) first.ExpectWeights();
    }
    CurveJob job(GetParam(), strategy);
    const auto meaningful = static_cast<int>((job.meaningful_steps() + 19) / 20);
    epochs = std::min(epochs, meaningful);
    ASSERT_NO_FATAL_FAILURE(job.Train(epochs));
    if (job.meaningful_steps() >= static_cast<size_t>(20 * epochs)) job.ExpectReports(epochs);
  }
};

TEST_P(TrainingCurve, IsKerassOnParameterServers) { ExpectKeras(kSmallShards, 10); }
TEST_P(TrainingCurve, IsKerassOnOneDevice) { ExpectKeras(kOneDevice, 2); }
TEST_P(TrainingCurve, IsKerassOnTwoReplicas) { ExpectKeras(kTwoReplicas, 10); }

INSTANTIATE_TEST_SUITE_P(Models, TrainingCurve, testing::ValuesIn(AllCurves()), TestName);

}  // namespace
}  // namespace cohort
