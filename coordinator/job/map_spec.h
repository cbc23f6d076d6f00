#pragma once

// Functions of the columns of a data set, named like Keras's preprocessing layers, as a job gives
// them. Some need to know the data, as Keras's layers learn by `adapt`: a vocabulary, a mean and a
// variance, or boundaries. Where the job does not give these, the function is incomplete until a
// pass over the training data has found them.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/preprocessing/column_statistics.h"
#include "proto/plan.pb.h"

namespace cohort {

// A function of columns. Only the parameters of its class count.
struct MapSpec {
  using Value = std::variant<int64_t, double, std::string>;

  std::string function;                  // the class, such as "StringLookup"
  std::vector<std::string> inputs = {};  // columns
  std::string output = {};               // the column of the result; "": that of the input
  int64_t num_bins = 0;
  std::vector<uint64_t> salt = {};
  std::optional<std::string> mask = {};  // a text, or an integer as text
  // At most one of both. Without either the vocabulary is adapted.
  std::optional<std::vector<std::string>> vocabulary = {};
  std::string vocabulary_file = {};
  std::optional<int64_t> max_tokens = {};  // with those of the mask and of unknown tokens
  int64_t num_oov_indices = 1;
  std::optional<std::vector<double>> boundaries = {};  // without: adapted to num_bins bins
  std::optional<std::vector<double>> mean = {};        // without: adapted, with the variance
  std::vector<double> variance = {};
  bool by_last_axis = true;  // false: one mean for all numbers is adapted
  std::string dtype = "float32";
  double scale = 1;
  double offset = 0;
  int64_t num_tokens = 0;
  std::string output_mode = {};
  std::string standardize = "lower_and_strip_punctuation";
  std::string split = "whitespace";
  int64_t ngrams = 1;
  int64_t length = 0;  // for TextVectorization 0: as many as there are
  std::optional<Value> value = {};
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
  std::string interpolation = "bilinear";
  std::string dct_method = "INTEGER_FAST";
  std::vector<int64_t> shape = {};
  bool little_endian = true;

  friend bool operator==(const MapSpec&, const MapSpec&) = default;
};

// Returns whether the function needs to know the data, and the job does not tell.
bool NeedsAdapting(const MapSpec& spec);
// Returns how many indices a look-up or a TextVectorization has before those of its vocabulary.
int64_t FirstIndex(const MapSpec& spec);
// Returns what a pass over the data has to find for a function that needs it.
proto::Statistic StatisticFor(const MapSpec& spec);
// Completes a function that needs to know the data. Errors: INVALID_ARGUMENT for data to which it
// cannot adapt, with the remedy.
absl::Status Adapt(MapSpec& spec, const ColumnStatistics& statistics);

// Returns the complete function for a DatasetSpec.
proto::Map ToProto(const MapSpec& spec);
// Changes the names of a data set's columns as the function does.
void ApplyToNames(const MapSpec& spec, std::vector<std::string>& columns);

}  // namespace cohort
