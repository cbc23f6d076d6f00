#include "coordinator/train/init_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

WeightEntry Entry(const std::string& name) {
  WeightEntry entry;
  entry.name = name;
  entry.dtype = DType::kFloat32;
  entry.shape = Shape({2});
  return entry;
}

JobSpec JobOfCells(const std::vector<std::string>& classes) {
  json cells = json::array();
  for (const std::string& name : classes) {
    cells.push_back({{"class_name", name}, {"config", {{"units", 2}}}});
  }
  const json stack = {{"class_name", "StackedRNNCells"}, {"config", {{"cells", cells}}}};
  const json rnn = {{"class_name", "RNN"},
                    {"config", {{"name", "rnn"}, {"cell", stack}, {"input_shape", {3, 2}}}}};
  const json job = {
      {"model", {{"class_name", "Sequential"}, {"config", {{"layers", json::array({rnn})}}}}},
      {"data", {{"train", {{"class_name", "IDX"}, {"config", {{"paths", {"/x", "/y"}}}}}}}},
      {"compile", {{"optimizer", "sgd"}, {"loss", "mse"}}},
      {"strategy", {{"type", "one_device"}}}};
  const auto parsed = ParseJob(job.dump(), "job", {});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : JobSpec();
}

// The groups of a file are sorted by their names: gru_cell, lstm_cell, lstm_cell_1.
TEST(InitFrom, CellsOfSeveralClassesAreNotTakenInTheWrongOrder) {
  WeightFile file;
  file.path = "w.weights.h5";
  file.kind = WeightFileKind::kKerasWeights;
  for (const char* cell : {"gru_cell", "lstm_cell", "lstm_cell_1"}) {
    file.entries.push_back(Entry(absl::StrCat("layers/rnn/cell/cells/", cell, "/vars/0")));
  }
  const auto error = [&](const JobSpec& job) {
    return std::string(MatchInitFrom(file, job, {}).status().message());
  };
  EXPECT_THAT(error(JobOfCells({"GRUCell", "LSTMCell", "LSTMCell"})), Not(HasSubstr("stacked")));
  JobSpec job = JobOfCells({"LSTMCell", "GRUCell", "LSTMCell"});
  EXPECT_THAT(error(job), HasSubstr("the stacked cells lstm_cell, gru_cell, lstm_cell_1 under"));
  for (const WeightEntry& entry : file.entries) {
    job.checkpoint.init_from.map[entry.name].from = entry.name;
  }
  EXPECT_THAT(error(job), Not(HasSubstr("stacked")));
}

}  // namespace
}  // namespace cohort
