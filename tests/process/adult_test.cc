// The census data of Adult (UCI), from its raw files: missing values, look-ups, crosses and numbers
// to which the job adapts, in deploy/jobs/adult_wide_deep.json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file_system.h"
#include "common/base/temporary_file.h"
#include "common/records/tfrecord.h"
#include "common/wire/route/real_world.h"
#include "proto/example.pb.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;

struct Field {
  const char* name;
  bool is_number = false;
  bool is_read = true;
};
constexpr Field kFields[] = {{"age", true},
                             {"workclass"},
                             {"fnlwgt", true, false},
                             {"education"},
                             {"education_num", true},
                             {"marital_status"},
                             {"occupation"},
                             {"relationship"},
                             {"race"},
                             {"sex"},
                             {"capital_gain", true},
                             {"capital_loss", true},
                             {"hours_per_week", true},
                             {"native_country"},
                             {"income"}};

// Returns the rows of a file of Adult as TFRecords of tf.train.Example, in which missing values are
// features that are not there.
std::string TfRecordsOf(const std::string& csv) {
  std::string records;
  for (const absl::string_view line : absl::StrSplit(csv, '\n')) {
    if (line.empty() || absl::StartsWith(line, "|")) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    for (size_t i = 0; i < std::size(kFields) && i < fields.size(); ++i) {
      const std::string value(absl::StripAsciiWhitespace(fields[i]));
      if (value == "?" || !kFields[i].is_read) continue;
      if (kFields[i].is_number) {
        float number = 0;
        EXPECT_TRUE(absl::SimpleAtof(value, &number)) << value;
        features[kFields[i].name].mutable_float_list()->add_value(number);
      } else {
        features[kFields[i].name].mutable_bytes_list()->add_value(value);
      }
    }
    AppendTfRecord(example.SerializeAsString(), records);
  }
  return records;
}

// Returns the data set of a file of TFRecords, for --set.
std::string TfRecordSource(const std::string& path) {
  json features = json::array();
  for (const Field& field : kFields) {
    if (!field.is_read) continue;
    json& feature = features.emplace_back(
        json{{"name", field.name}, {"dtype", field.is_number ? "float32" : "string"}});
    if (!field.is_number && field.name != std::string("income")) feature["default"] = "";
  }
  return json{{"class_name", "TFRecord"}, {"config", {{"paths", {path}}, {"features", features}}}}
      .dump();
}

class AdultTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const data = getenv("COHORT_DATA_DIR");
    if (data == nullptr) GTEST_SKIP() << "COHORT_DATA_DIR is not set";
    // The files are copied, because their indexes are written beside them.
    for (const std::string name : {"adult.data", "adult.test"}) {
      const auto text = ReadFile(files_, absl::StrCat(data, "/adult/", name));
      if (absl::IsNotFound(text.status())) GTEST_SKIP() << "needs data: adult in COHORT_DATA_DIR";
      ASSERT_TRUE(text.ok()) << text.status();
      ASSERT_TRUE(WriteFileAtomically(files_, PathOf(name), *text).ok());
      ASSERT_TRUE(WriteFileAtomically(files_, PathOf(name + ".tfrecord"), TfRecordsOf(*text)).ok());
    }
  }

  std::string PathOf(const std::string& name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }

  std::vector<std::string> FromCsv() const {
    return {absl::StrCat("data.train.config.paths=[\"", PathOf("adult.data"), "\"]"),
            absl::StrCat("data.test.config.paths=[\"", PathOf("adult.test"), "\"]")};
  }
  std::vector<std::string> FromTfRecord() const {
    return {"data.train=" + TfRecordSource(PathOf("adult.data.tfrecord")),
            "data.test=" + TfRecordSource(PathOf("adult.test.tfrecord"))};
  }

  json Train(const std::string& local, std::vector<std::string> sets,
             const std::vector<std::string>& more = {}) {
    sets.insert(sets.end(), more.begin(), more.end());
    std::vector<std::string> arguments = {
        "--job", COHORT_SOURCE_DIR "/deploy/jobs/adult_wide_deep.json", "--local", local};
    for (const std::string& set : sets) {
      arguments.emplace_back("--set");
      arguments.push_back(set);
    }
    const ProcessRun run =
        RunProcess(absl::StrCat(COHORT_BIN_DIR, "/coordinator"), arguments,
                   {{"TF_CONFIG", ""}, {"TMPDIR", directory_.path()}}, absl::Seconds(240));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? json::parse(run.LastLine()) : json::object();
  }

  // Returns what a training of one epoch ends with: the test loss, the model and what was adapted.
  std::string ResultOf(const std::string& local, const std::vector<std::string>& source,
                       const std::string& consistency) {
    const std::string model = PathOf("model.onnx");
    const json summary =
        Train(local, source, {"fit.epochs=1", consistency, "export.onnx=" + model});
    return absl::StrCat(summary.value("test_loss", json()).dump(), "\n",
                        ReadFile(files_, model + ".preprocessing.json").value_or("none"), "\n",
                        ReadFile(files_, model).value_or("none"));
  }

  PosixFileSystem files_;
  const TempDirectory directory_{"adult"};
};

// The bounds are those of published wide and deep models (Cheng et al., 2016, and TensorFlow's
// tutorial of them): an accuracy of 0.85, an area under the curve of 0.90.
TEST_F(AdultTest, AWideAndDeepModelLearnsWithParameterServers) {
  const json summary = Train("ps=1,worker=2", FromCsv());
  EXPECT_GE(summary.value("test_accuracy", 0.0), 0.85);
  EXPECT_GE(summary.value("test_auc", 0.0), 0.90);
  EXPECT_EQ(summary.value("test_examples", 0), 16281);
}

TEST_F(AdultTest, TfRecordsGiveTheSameBitsAsCsv) {
  for (const std::string local : {"ps=1,worker=1", "ps=1,worker=2"}) {
    const std::string consistency =
        R"(strategy.consistency={"class_name": "Synchronous", "config": {"aggregate": 2}})";
    const std::string from_csv = ResultOf(local, FromCsv(), consistency);
    EXPECT_FALSE(absl::StrContains(from_csv, "none\n"));
    EXPECT_TRUE(ResultOf(local, FromTfRecord(), consistency) == from_csv) << local;
  }
}

}  // namespace
}  // namespace cohort
