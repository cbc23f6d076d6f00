// Functions of texts and of integers that stand for categories: Hashing, HashedCrossing,
// StringLookup, IntegerLookup and TextVectorization.

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/preprocessing/hashing.h"
#include "common/preprocessing/text_tokens.h"
#include "common/preprocessing/vocabulary.h"
#include "worker/data/columns/column_gatherer.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

constexpr int64_t kSequenceMax = int64_t{1} << 20;

// Keras's layer HashedCrossing of columns with one value each. Thread-safe.
class Crossing final : public ColumnFunction {
 public:
  Crossing(std::vector<std::string> inputs, ColumnSpec output, uint64_t bins)
      : inputs_(std::move(inputs)), output_(std::move(output)), bins_(bins) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    DataColumn out{output_, {}};
    std::vector<CrossHash> hashes(static_cast<size_t>(batch.rows));
    for (const std::string& input : inputs_) {
      const DataColumn& in = batch.columns[FindColumn(batch.columns, input)];
      for (size_t i = 0; i < hashes.size(); ++i) {
        if (IsString(in.spec)) {
          hashes[i].Add(in.values.strings[i]);
        } else {
          hashes[i].Add(in.values.ints[i]);
        }
      }
    }
    for (const CrossHash& hash : hashes) out.values.ints.push_back(hash.BinOf(bins_));
    PutColumn(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> inputs_;
  const ColumnSpec output_;
  const uint64_t bins_;
};

// Keras's layer TextVectorization of columns with one text each. Thread-safe.
class TextVectorizer final : public ColumnFunction {
 public:
  struct Options {
    TextTokensOptions tokens;
    int64_t length = 0;  // number of indices in output mode "int"; 0: as many as there are
    std::string mode;
  };

  TextVectorizer(std::string input, ColumnSpec output, Vocabulary vocabulary, Options options)
      : input_(std::move(input)),
        output_(std::move(output)),
        vocabulary_(std::move(vocabulary)),
        options_(std::move(options)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    const DataColumn& in = batch.columns[FindColumn(batch.columns, input_)];
    DataColumn out{output_, {}};
    if (output_.varies) out.row_splits.push_back(0);
    for (*row = 0; *row < batch.rows; ++*row) {
      const auto text = in.values.strings[static_cast<size_t>(*row)];
      ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IndicesOf(text));
      if (options_.mode == "int") {
        AppendIndices(indices, out);
      } else {
        AppendEncoded(indices, out.values.floats);
      }
    }
    PutColumn(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<int64_t>> IndicesOf(absl::string_view text) const {
    std::vector<int64_t> indices;
    for (const std::string& token : TextTokens(text, options_.tokens)) {
      ASSIGN_OR_RETURN(indices.emplace_back(), vocabulary_.IndexOf(token));
    }
    return indices;
  }

  void AppendIndices(const std::vector<int64_t>& indices, DataColumn& out) const {
    std::vector<int64_t>& values = out.values.ints;
    values.insert(values.end(), indices.begin(), indices.end());
    if (output_.varies) return out.row_splits.push_back(static_cast<int64_t>(values.size()));
    const size_t begin = values.size() - indices.size();
    values.resize(begin + static_cast<size_t>(options_.length));  // cut, or padded by 0
  }

  void AppendEncoded(const std::vector<int64_t>& indices, std::vector<float>& values) const {
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(vocabulary_.size()));
    for (const int64_t index : indices) {
      float& marked = values[begin + static_cast<size_t>(index)];
      marked = options_.mode == "count" ? marked + 1 : 1;
    }
  }

  const std::string input_;
  const ColumnSpec output_;
  const Vocabulary vocabulary_;
  const Options options_;
};

}  // namespace

Made MakeHashing(MapCall call, Specs& columns) {
  const proto::Hashing& hashing = call.map.hashing();
  if (!IsString(call.input) && !IsInt(call.input))
    return WrongType(call.input, "texts or integers");
  if (hashing.bins() < 1) return absl::InvalidArgumentError("num_bins must be at least 1");
  if (hashing.key_size() != 0 && hashing.key_size() != 2) {
    return absl::InvalidArgumentError("salt must be one number or two");
  }
  std::optional<SipKey> key;
  if (hashing.key_size() == 2) key = SipKey{hashing.key(0), hashing.key(1)};
  std::optional<std::string> mask;
  if (hashing.has_mask()) mask = hashing.mask();
  const HashBins bins(hashing.bins(), key, mask);
  call.output.type = proto::COLUMN_INT64;
  return MakeEach(std::move(call), columns,
                  [bins](const ColumnValues& in, ColumnValues& out, StringArena&, size_t*) {
                    for (const int64_t value : in.ints) out.ints.push_back(bins.BinOf(value));
                    for (const auto value : in.strings) out.ints.push_back(bins.BinOf(value));
                    return absl::OkStatus();
                  });
}

Made MakeLookup(MapCall call, Specs& columns) {
  const proto::Lookup& lookup = call.map.lookup();
  if (!IsString(call.input) && !IsInt(call.input))
    return WrongType(call.input, "texts or integers");
  if (lookup.oov_indices() < 0) return absl::InvalidArgumentError("num_oov_indices is negative");
  VocabularyOptions options;
  if (lookup.has_mask()) options.mask = lookup.mask();
  options.oov_indices = lookup.oov_indices();
  options.integers = IsInt(call.input);
  ASSIGN_OR_RETURN(Vocabulary made,
                   Vocabulary::Make({lookup.tokens().begin(), lookup.tokens().end()}, options));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(made));
  call.output.type = proto::COLUMN_INT64;
  return MakeEach(std::move(call), columns,
                  [vocabulary](const ColumnValues& in, ColumnValues& out, StringArena&,
                               size_t* at) -> absl::Status {
                    for (; *at < in.ints.size(); ++*at) {
                      ASSIGN_OR_RETURN(const int64_t index, vocabulary->IndexOf(in.ints[*at]));
                      out.ints.push_back(index);
                    }
                    for (; *at < in.strings.size(); ++*at) {
                      ASSIGN_OR_RETURN(const int64_t index, vocabulary->IndexOf(in.strings[*at]));
                      out.ints.push_back(index);
                    }
                    return absl::OkStatus();
                  });
}

Made MakeTextVectorization(MapCall call, Specs& columns) {
  const proto::TextVectorization& given = call.map.text_vectorization();
  if (!IsString(call.input) || call.input.varies || call.input.shape.num_elements() != 1) {
    return WrongType(call.input, "one text of each record");
  }
  TextVectorizer::Options options;
  ASSIGN_OR_RETURN(options.tokens, TextTokensOptionsOf(given));
  options.length = given.output_sequence_length();
  options.mode = given.output_mode().empty() ? "int" : given.output_mode();
  const bool is_int = options.mode == "int";
  if (!is_int && options.mode != "multi_hot" && options.mode != "count") {
    return absl::InvalidArgumentError("output_mode must be int, multi_hot or count");
  }
  if (options.length < 0 || options.length > kSequenceMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("output_sequence_length must be at most ", kSequenceMax));
  }
  VocabularyOptions vocabulary;
  if (is_int) vocabulary.mask = "";  // index 0 is for padding
  ASSIGN_OR_RETURN(Vocabulary made,
                   Vocabulary::Make({given.tokens().begin(), given.tokens().end()}, vocabulary));
  ColumnSpec& output = call.output;
  output.type = is_int ? proto::COLUMN_INT64 : proto::COLUMN_FLOAT32;
  output.varies = is_int && options.length == 0;
  output.shape = is_int ? Shape({options.length}) : Shape({made.size()});
  if (output.varies) output.shape = Shape();
  const std::string input = call.input.name;
  PutColumn(columns, output);
  return std::make_unique<const TextVectorizer>(input, std::move(output), std::move(made),
                                                std::move(options));
}

Made MakeHashedCrossing(const proto::Map& map, Specs& columns) {
  std::vector<std::string> inputs(map.inputs().begin(), map.inputs().end());
  if (inputs.size() < 2) return absl::InvalidArgumentError("it needs at least two columns");
  if (map.hashed_crossing().bins() < 1) {
    return absl::InvalidArgumentError("num_bins must be at least 1");
  }
  for (const std::string& input : inputs) {
    const ColumnSpec& spec = columns[FindColumn(columns, input)];
    const bool fits =
        (IsString(spec) || IsInt(spec)) && !spec.varies && spec.shape.num_elements() == 1;
    if (!fits) return WrongType(spec, "one text or integer of each record");
  }
  ColumnSpec output{map.output(), proto::COLUMN_INT64, Shape()};
  PutColumn(columns, output);
  return std::make_unique<const Crossing>(std::move(inputs), std::move(output),
                                          map.hashed_crossing().bins());
}

}  // namespace cohort
