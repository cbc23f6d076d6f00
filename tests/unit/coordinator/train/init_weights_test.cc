#include "coordinator/train/init_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

using testing::HasSubstr;

WeightEntry Entry(const std::string& name) {
  WeightEntry entry;
  entry.name = name;
  entry.dtype = DType::kFloat32;
  entry.shape = Shape({2});
  return entry;
}

// Keras stacks [LSTM, GRU, LSTM], and sorts their groups as gru_cell, lstm_cell, lstm_cell_1.
TEST(InitFrom, CellsOfSeveralClassesAreNotTakenInTheWrongOrder) {
  WeightFile file;
  file.path = "w.weights.h5";
  file.kind = WeightFileKind::kKerasWeights;
  for (const char* cell : {"lstm_cell", "lstm_cell_1"}) {
    file.entries.push_back(Entry(absl::StrCat("layers/rnn/cell/cells/", cell, "/vars/0")));
  }
  JobSpec job;
  const auto error = [&] { return std::string(MatchInitFrom(file, job, {}).status().message()); };
  EXPECT_THAT(error(), testing::Not(HasSubstr("several classes")));
  file.entries.push_back(Entry("layers/rnn/cell/cells/gru_cell/vars/0"));
  EXPECT_THAT(error(),
              HasSubstr("'layers/rnn/cell' has cells of several classes (gru_cell, lstm_cell)"));
  job.checkpoint.init_from.map["rnn/gru_cell/kernel"].from =
      "layers/rnn/cell/cells/gru_cell/vars/0";
  EXPECT_THAT(error(), testing::Not(HasSubstr("several classes")));
}

}  // namespace
}  // namespace cohort
