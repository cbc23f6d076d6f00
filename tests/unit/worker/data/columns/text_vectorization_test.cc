// Texts, vocabularies and indices that Keras 3.15's TextVectorization gave
// (tests/golden/preprocessing/make_text.py).

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/data/columns/column_gatherer.h"
#include "worker/data/columns/make_column_function.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Golden() {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/preprocessing/text_vectorization.json");
  return json::parse(file);
}

// `texts` must outlive the batch.
ColumnBatch BatchOf(const std::vector<std::string>& texts) {
  ColumnBatch batch;
  batch.rows = static_cast<int64_t>(texts.size());
  DataColumn& column = batch.columns.emplace_back();
  column.spec = {"text", proto::COLUMN_STRING, Shape()};
  column.values.strings.assign(texts.begin(), texts.end());
  return batch;
}

std::string NameOf(const json& config, const char* key, const std::string& none) {
  if (!config.contains(key)) return none;
  return config.at(key).is_null() ? "none" : config.at(key).get<std::string>();
}

proto::Map MapOf(const json& config) {
  proto::Map map;
  map.add_inputs("text");
  proto::TextVectorization& text = *map.mutable_text_vectorization();
  text.set_standardize(NameOf(config, "standardize", ""));
  text.set_split(NameOf(config, "split", ""));
  text.set_ngrams(config.value("ngrams", 1));
  text.set_output_mode(config.value("output_mode", "int"));
  text.set_output_sequence_length(config.value("output_sequence_length", 0));
  return map;
}

std::vector<std::string> Adapted(const proto::Map& map, const json& config,
                                 const std::vector<std::string>& corpus) {
  proto::Adapt adapt;
  proto::Statistic& statistic = *adapt.add_statistics();
  statistic.set_column("text");
  statistic.set_kind(proto::Statistic::TOKENS);
  *statistic.mutable_text() = map.text_vectorization();
  const ColumnBatch batch = BatchOf(corpus);
  const auto gatherer = ColumnGatherer::Make(adapt, {batch.columns[0].spec});
  EXPECT_TRUE(gatherer.ok()) << gatherer.status();
  std::vector<ColumnStatistics> statistics = gatherer->Begin();
  gatherer->Add(batch, statistics);
  TokenOrder order{.mask = ""};
  const int64_t special = map.text_vectorization().output_mode() == "int" ? 2 : 1;
  if (config.contains("max_tokens")) {
    order.count_max = static_cast<size_t>(config.at("max_tokens").get<int64_t>() - special);
  }
  return statistics[0].tokens().Tokens(order);
}

// Returns the values of a batch as the golden file writes them.
json Rows(const DataColumn& column, int64_t rows) {
  json result = json::array();
  for (int64_t row = 0; row < rows; ++row) {
    json& one = result.emplace_back(json::array());
    const bool is_int = column.spec.type == proto::COLUMN_INT64;
    const auto size = static_cast<size_t>(column.spec.shape.num_elements());
    const auto i = static_cast<size_t>(row);
    const size_t begin = column.spec.varies ? static_cast<size_t>(column.row_splits[i]) : i * size;
    const size_t end =
        column.spec.varies ? static_cast<size_t>(column.row_splits[i + 1]) : (i + 1) * size;
    for (size_t at = begin; at < end; ++at) {
      if (is_int) {
        one.push_back(column.values.ints[at]);
      } else {
        one.push_back(static_cast<int64_t>(column.values.floats[at]));
      }
    }
  }
  return result;
}

TEST(TextVectorization, VocabulariesAndIndicesAreThoseOfKeras) {
  const json golden = Golden();
  const auto corpus = golden.at("corpus").get<std::vector<std::string>>();
  const auto texts = golden.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(golden.at("cases").size(), 12u);
  for (const json& one : golden.at("cases")) {
    SCOPED_TRACE(one.at("config").dump());
    proto::Map map = MapOf(one.at("config"));
    const std::vector<std::string> vocabulary = Adapted(map, one.at("config"), corpus);
    EXPECT_EQ(vocabulary, one.at("vocabulary").get<std::vector<std::string>>());
    for (const std::string& token : vocabulary) {
      map.mutable_text_vectorization()->add_tokens(token);
    }
    ColumnBatch batch = BatchOf(texts);
    std::vector<ColumnSpec> specs = {batch.columns[0].spec};
    const auto function = MakeColumnFunction(map, specs);
    ASSERT_TRUE(function.ok()) << function.status();
    int64_t row = 0;
    ASSERT_TRUE((*function)->Apply(batch, &row).ok());
    EXPECT_EQ(specs[0].TypeText(), batch.columns[0].spec.TypeText());
    json expected = one.at("outputs");
    // Keras gives one token of a text that is not split without an axis for it.
    for (json& output : expected) {
      if (!output.is_array()) output = json::array({output});
    }
    // Its int64 and float32 are compared as whole numbers.
    EXPECT_EQ(Rows(batch.columns[0], batch.rows).dump(),
              json(expected.get<std::vector<std::vector<int64_t>>>()).dump());
  }
}

TEST(TextVectorization, ParametersThatCannotBeAreRefused) {
  const auto error = [](const auto& change) {
    proto::Map map = MapOf(json::object());
    change(*map.mutable_text_vectorization());
    std::vector<ColumnSpec> specs = {{"text", proto::COLUMN_STRING, Shape()}};
    return std::string(MakeColumnFunction(map, specs).status().message());
  };
  EXPECT_THAT(error([](auto& text) { text.set_standardize("upper"); }),
              HasSubstr("TextVectorization: standardize is 'upper'; it must be none, lower"));
  EXPECT_THAT(error([](auto& text) { text.set_split("words"); }), HasSubstr("split is 'words'"));
  EXPECT_THAT(error([](auto& text) { text.set_ngrams(99); }), HasSubstr("ngrams must be 1 to 16"));
  EXPECT_THAT(error([](auto& text) { text.set_output_mode("tf_idf"); }), HasSubstr("output_mode"));
  EXPECT_THAT(error([](auto& text) { text.set_output_sequence_length(-1); }),
              HasSubstr("output_sequence_length"));
  EXPECT_THAT(error([](auto& text) { text.add_tokens(""); }), HasSubstr("the mask ''"));
}

}  // namespace
}  // namespace cohort
