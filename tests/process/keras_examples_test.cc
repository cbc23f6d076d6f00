// The examples of docs/KERAS.md: what Keras wrote (docs/examples/keras) trains as the job files
// beside it say, on data that this test makes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Type bytes of IDX files.
constexpr char kUint8 = 0x08;
constexpr char kInt32 = 0x0c;
constexpr char kFloat32 = 0x0d;

void AppendWord(uint32_t word, std::string& bytes) {
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(word >> shift & 0xff);
}

// Returns an IDX file without its values.
std::string IdxHeader(char type, const std::vector<uint32_t>& dims) {
  std::string bytes = {0, 0, type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) AppendWord(dim, bytes);
  return bytes;
}

void AppendFloat(float value, std::string& bytes) {
  uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  AppendWord(word, bytes);
}

// A folder with the examples, where their data come to. Thread-compatible.
class KerasExamples : public testing::Test {
 protected:
  KerasExamples() : folder_("keras_examples") {
    std::filesystem::copy(COHORT_SOURCE_DIR "/docs/examples/keras", folder_.path());
  }

  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // Runs a job in the folder, as the guide says.
  ProcessRun Run(const std::string& job, const std::string& local,
                 const std::vector<std::string>& sets) const {
    std::vector<std::string> arguments = {"-c",           "cd \"$0\" && exec \"$@\"",
                                          folder_.path(), COHORT_BIN_DIR "/coordinator",
                                          "--job",        job,
                                          "--local",      local};
    for (const std::string& set : sets) {
      arguments.emplace_back("--set");
      arguments.push_back(set);
    }
    return RunProcess("/bin/sh", arguments, {{"TF_CONFIG", ""}, {"TMPDIR", folder_.path()}},
                      absl::Seconds(120));
  }

  const TempDirectory folder_;
};

// Images of 8x8, of whose four quarters one is bright: that of the label.
TEST_F(KerasExamples, ASequentialNetworkFromToJson) {
  std::minstd_rand random(1);
  std::string images = IdxHeader(kUint8, {400, 8, 8, 1});
  std::string labels = IdxHeader(kUint8, {400});
  for (int i = 0; i < 400; ++i) {
    const auto label = static_cast<int>(random() % 4);
    labels += static_cast<char>(label);
    for (int pixel = 0; pixel < 64; ++pixel) {
      const int quarter = pixel / 32 * 2 + pixel % 8 / 4;
      images += static_cast<char>(random() % 100 + (quarter == label ? 60 : 0));
    }
  }
  Write("images.idx", images);
  Write("labels.idx", labels);
  const ProcessRun run = Run("digits_cnn.json", "ps=1,worker=2", {});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 6 * 10) << "80 of 400 examples are for validation";
  EXPECT_GT(summary["validation_accuracy"], 0.9);
}

// Words of one half of the vocabulary say yes, those of the other no, and a number may overrule
// them.
TEST_F(KerasExamples, AFunctionalModelWithTwoInputs) {
  std::minstd_rand random(1);
  const uint32_t count = 240;
  std::string words = IdxHeader(kInt32, {count, 12});
  std::string numbers = IdxHeader(kFloat32, {count, 3});
  std::string labels = IdxHeader(kUint8, {count});
  for (uint32_t i = 0; i < count; ++i) {
    const auto half = static_cast<uint32_t>(random() % 2);
    const auto length = static_cast<uint32_t>(random() % 10 + 3);
    for (uint32_t at = 0; at < 12; ++at) {
      const auto word = static_cast<uint32_t>(random() % 24 + 1);
      AppendWord(at < length ? word + half * 25 : 0, words);
    }
    float first = 0;
    for (int at = 0; at < 3; ++at) {
      const float number = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
      if (at == 0) first = number;
      AppendFloat(number, numbers);
    }
    labels += static_cast<char>((half == 1 ? 1.0F : -1.0F) + 1.5F * first > 0 ? 1 : 0);
  }
  Write("words.idx", words);
  Write("numbers.idx", numbers);
  Write("labels.idx", labels);
  const ProcessRun run = Run("two_inputs.json", "worker=1", {});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 6 * 15);
  // Words or numbers alone give little more than 0.8.
  EXPECT_GT(summary["train_accuracy"], 0.9);
  EXPECT_GT(summary["train_AUC"], 0.95);
}

// The function that the saved model has learned in Keras.
TEST_F(KerasExamples, ASavedModelGoesOnWithItsWeightsAndWhatCompileWasGiven) {
  std::minstd_rand random(1);
  std::string x = IdxHeader(kFloat32, {256, 4});
  std::string y = IdxHeader(kFloat32, {256, 1});
  for (int i = 0; i < 256; ++i) {
    float row[4];
    for (float& number : row) {
      number = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
      AppendFloat(number, x);
    }
    AppendFloat(row[0] - 2 * row[1] + 0.5F * row[2], y);
  }
  Write("x.idx", x);
  Write("y.idx", y);
  for (const char* file : {"saved_model.keras", "saved_model.h5"}) {
    const ProcessRun run =
        Run("saved_model.json", "worker=1", {absl::StrCat("model.keras=", file)});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("matched=4 missing=0"));
    const json summary = json::parse(run.LastLine());
    EXPECT_LT(summary["train_loss"], 0.01) << file;
    EXPECT_LT(summary["train_mae"], 0.1) << "compile() was given this metric";
  }
  const ProcessRun anew = Run("saved_model.json", "worker=1", {"checkpoint.init_from="});
  ASSERT_EQ(anew.exit_code, 0) << anew.err;
  EXPECT_THAT(anew.err, Not(HasSubstr("event=weights_initialized")));
  EXPECT_GT(json::parse(anew.LastLine())["train_loss"], 0.05);
}

}  // namespace
}  // namespace cohort
