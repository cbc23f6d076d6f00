#include "worker/data/column_function.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/preprocessing/hashing.h"
#include "common/preprocessing/vocabulary.h"
#include "common/tensor/dtype.h"

namespace cohort {

namespace {

using Specs = std::vector<ColumnSpec>;
using Made = absl::StatusOr<std::unique_ptr<const ColumnFunction>>;

constexpr int64_t kTokensMax = int64_t{1} << 24;
// Keras's epsilon below the standard deviation.
constexpr float kDeviationMin = 1e-7f;

bool IsInt(const ColumnSpec& spec) {
  return spec.type == proto::COLUMN_INT64 || spec.type == proto::COLUMN_INT32;
}
bool IsString(const ColumnSpec& spec) { return spec.type == proto::COLUMN_STRING; }
bool IsNumber(const ColumnSpec& spec) { return !IsString(spec); }

absl::Status Wrong(const ColumnSpec& spec, absl::string_view need) {
  return absl::InvalidArgumentError(
      absl::StrCat("column '", Excerpt(spec.name), "' is ", spec.TypeText(), "; it takes ", need));
}

// Replaces the column of this name, or adds it.
void Put(Specs& columns, ColumnSpec spec) {
  const size_t at = FindColumn(columns, spec.name);
  if (at < columns.size()) {
    columns[at] = std::move(spec);
  } else {
    columns.push_back(std::move(spec));
  }
}
void Put(ColumnBatch& batch, DataColumn column) {
  const size_t at = FindColumn(batch.columns, column.spec.name);
  if (at < batch.columns.size()) {
    batch.columns[at] = std::move(column);
  } else {
    batch.columns.push_back(std::move(column));
  }
}

// Returns the row of a value of the column.
int64_t RowOf(const DataColumn& column, int64_t rows, size_t value) {
  const auto size = static_cast<size_t>(std::max<int64_t>(column.spec.shape.num_elements(), 1));
  const auto step = static_cast<int64_t>(value / size);
  if (!column.spec.varies) return std::min(step, rows - 1);
  const auto after = std::upper_bound(column.row_splits.begin(), column.row_splits.end(), step);
  return static_cast<int64_t>(after - column.row_splits.begin()) - 1;
}

// Calls `take` with each number of a column as a double, or as an int64 if it is an integer.
template <typename Take>
void ForEachNumber(const ColumnValues& values, Take take) {
  for (const int64_t value : values.ints) take(static_cast<double>(value));
  for (const float value : values.floats) take(static_cast<double>(value));
  for (const double value : values.doubles) take(value);
}

// A function of each value of one column. Thread-safe.
class EachValue final : public ColumnFunction {
 public:
  // Computes the values of the result from those of the input. `at` is set to the number of the
  // value of which an error tells.
  using Compute =
      std::function<absl::Status(const ColumnValues& in, ColumnValues& out, size_t* at)>;

  EachValue(std::string input, ColumnSpec output, Compute compute)
      : input_(std::move(input)), output_(std::move(output)), compute_(std::move(compute)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    const DataColumn& in = batch.columns[FindColumn(batch.columns, input_)];
    DataColumn out{output_, {}, in.row_splits};
    size_t at = 0;
    if (absl::Status status = compute_(in.values, out.values, &at); !status.ok()) {
      *row = RowOf(in, batch.rows, at);
      return Annotate(status, absl::StrCat("column '", Excerpt(input_), "'"));
    }
    Put(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::string input_;
  const ColumnSpec output_;
  const Compute compute_;
};

// The arguments of the makers of functions of one column.
struct Call {
  const proto::Map& map;
  const ColumnSpec& input;
  ColumnSpec output;  // the input's type under the name of the result
};

Made MakeEach(Call call, Specs& columns, EachValue::Compute compute) {
  const std::string input = call.input.name;
  Put(columns, call.output);
  return std::make_unique<const EachValue>(input, std::move(call.output), std::move(compute));
}

Made MakeHashing(Call call, Specs& columns) {
  const proto::Hashing& hashing = call.map.hashing();
  if (!IsString(call.input) && !IsInt(call.input)) return Wrong(call.input, "texts or integers");
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
                  [bins](const ColumnValues& in, ColumnValues& out, size_t*) {
                    for (const int64_t value : in.ints) out.ints.push_back(bins.BinOf(value));
                    for (const auto value : in.strings) out.ints.push_back(bins.BinOf(value));
                    return absl::OkStatus();
                  });
}

Made MakeLookup(Call call, Specs& columns) {
  const proto::Lookup& lookup = call.map.lookup();
  if (!IsString(call.input) && !IsInt(call.input)) return Wrong(call.input, "texts or integers");
  if (lookup.oov_indices() < 0) return absl::InvalidArgumentError("num_oov_indices is negative");
  VocabularyOptions options;
  if (lookup.has_mask()) options.mask = lookup.mask();
  options.oov_indices = lookup.oov_indices();
  options.integers = IsInt(call.input);
  ASSIGN_OR_RETURN(Vocabulary made,
                   Vocabulary::Make({lookup.tokens().begin(), lookup.tokens().end()}, options));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(made));
  call.output.type = proto::COLUMN_INT64;
  return MakeEach(
      std::move(call), columns,
      [vocabulary](const ColumnValues& in, ColumnValues& out, size_t* at) -> absl::Status {
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

// Keras's layer Discretization: the number of boundaries at or below x; NaN is in the last bin.
Made MakeDiscretization(Call call, Specs& columns) {
  if (!IsNumber(call.input)) return Wrong(call.input, "numbers");
  const auto& given = call.map.discretization().boundaries();
  std::vector<float> boundaries(given.begin(), given.end());
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
    return absl::InvalidArgumentError("bin_boundaries do not ascend");
  }
  call.output.type = proto::COLUMN_INT64;
  return MakeEach(
      std::move(call), columns, [boundaries](const ColumnValues& in, ColumnValues& out, size_t*) {
        ForEachNumber(in, [&](double value) {
          const auto above =
              std::upper_bound(boundaries.begin(), boundaries.end(), static_cast<float>(value));
          const auto bin = std::isnan(value) ? boundaries.end() : above;
          out.ints.push_back(bin - boundaries.begin());
        });
        return absl::OkStatus();
      });
}

Made MakeNormalization(Call call, Specs& columns) {
  if (!IsNumber(call.input)) return Wrong(call.input, "numbers");
  const proto::Normalization& given = call.map.normalization();
  const auto count = static_cast<size_t>(given.mean_size());
  const bool fits = count == static_cast<size_t>(given.variance_size()) &&
                    (count == 1 || static_cast<int64_t>(count) == call.input.shape.num_elements());
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("mean and variance have ", count, " and ", given.variance_size(),
                     " numbers; they need one, or one for each of a record's ",
                     call.input.shape.num_elements()));
  }
  std::vector<float> mean(given.mean().begin(), given.mean().end());
  std::vector<float> deviation;
  for (const float variance : given.variance()) {
    deviation.push_back(std::max(std::sqrt(variance), kDeviationMin));
  }
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(std::move(call), columns,
                  [mean, deviation](const ColumnValues& in, ColumnValues& out, size_t*) {
                    size_t i = 0;
                    ForEachNumber(in, [&](double value) {
                      out.floats.push_back((static_cast<float>(value) - mean[i]) / deviation[i]);
                      i = i + 1 == mean.size() ? 0 : i + 1;
                    });
                    return absl::OkStatus();
                  });
}

Made MakeRescaling(Call call, Specs& columns) {
  if (!IsNumber(call.input)) return Wrong(call.input, "numbers");
  const auto scale = static_cast<float>(call.map.rescaling().scale());
  const auto offset = static_cast<float>(call.map.rescaling().offset());
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(std::move(call), columns,
                  [scale, offset](const ColumnValues& in, ColumnValues& out, size_t*) {
                    ForEachNumber(in, [&](double value) {
                      out.floats.push_back(static_cast<float>(value) * scale + offset);
                    });
                    return absl::OkStatus();
                  });
}

Made MakeLog1p(Call call, Specs& columns) {
  if (!IsNumber(call.input)) return Wrong(call.input, "numbers");
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(std::move(call), columns, [](const ColumnValues& in, ColumnValues& out, size_t*) {
    ForEachNumber(in, [&](double value) {
      out.floats.push_back(static_cast<float>(std::log1p(std::max(value, 0.0))));
    });
    return absl::OkStatus();
  });
}

Made MakeCast(Call call, Specs& columns) {
  if (!IsNumber(call.input)) return Wrong(call.input, "numbers; look texts up or hash them");
  switch (static_cast<DType>(call.map.cast())) {
    case DType::kFloat32:
      call.output.type = proto::COLUMN_FLOAT32;
      break;
    case DType::kFloat64:
      call.output.type = proto::COLUMN_FLOAT64;
      break;
    case DType::kInt32:
      call.output.type = proto::COLUMN_INT32;
      break;
    case DType::kInt64:
      call.output.type = proto::COLUMN_INT64;
      break;
    default:
      return absl::InvalidArgumentError("a cast gives float32, float64, int32 or int64");
  }
  const proto::ColumnType type = call.output.type;
  const bool from_float = !IsInt(call.input);
  return MakeEach(
      std::move(call), columns,
      [type, from_float](const ColumnValues& in, ColumnValues& out, size_t* at) -> absl::Status {
        const auto put_int = [&](int64_t value) {
          const bool fits =
              type == proto::COLUMN_INT64 || (value >= INT32_MIN && value <= INT32_MAX);
          if (fits) out.ints.push_back(value);
          return fits;
        };
        absl::Status status;
        const auto refuse = [&](auto value) {
          status.Update(absl::InvalidArgumentError(absl::StrCat(
              "its value ", value, " is no ", type == proto::COLUMN_INT32 ? "int32" : "int64")));
        };
        if (type == proto::COLUMN_FLOAT32) {
          ForEachNumber(in, [&](double v) { out.floats.push_back(static_cast<float>(v)); });
        } else if (type == proto::COLUMN_FLOAT64) {
          ForEachNumber(in, [&](double v) { out.doubles.push_back(v); });
        } else if (from_float) {
          // Fractions are cut off, as by tf.cast; what no integer is near is refused.
          constexpr double kLimit = 0x1p63;
          ForEachNumber(in, [&](double v) {
            if (!status.ok()) return;
            if (!(v > -kLimit && v < kLimit) || !put_int(static_cast<int64_t>(v))) return refuse(v);
            ++*at;
          });
        } else {
          for (const int64_t v : in.ints) {
            if (!put_int(v)) refuse(v);
            if (!status.ok()) break;
            ++*at;
          }
        }
        return status;
      });
}

// Keras's layer CategoryEncoding: numbers of categories become one row of `tokens` floats, or with
// one_hot of several numbers one row each. Thread-safe.
class CategoryEncoder final : public ColumnFunction {
 public:
  CategoryEncoder(std::string input, ColumnSpec output, int64_t tokens, std::string mode)
      : input_(std::move(input)),
        output_(std::move(output)),
        tokens_(tokens),
        mode_(std::move(mode)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    const DataColumn& in = batch.columns[FindColumn(batch.columns, input_)];
    const bool each_row = mode_ != "one_hot";
    const auto rows =
        static_cast<size_t>(each_row ? batch.rows : static_cast<int64_t>(in.values.ints.size()));
    DataColumn out{output_, {}, each_row ? std::vector<int64_t>() : in.row_splits};
    out.values.floats.assign(rows * static_cast<size_t>(tokens_), 0);
    for (size_t i = 0; i < in.values.ints.size(); ++i) {
      const int64_t token = in.values.ints[i];
      *row = RowOf(in, batch.rows, i);
      if (token < 0 || token >= tokens_) {
        return absl::InvalidArgumentError(absl::StrCat("column '", Excerpt(input_),
                                                       "' has the category ", token,
                                                       ", and num_tokens is ", tokens_));
      }
      const size_t at = each_row ? static_cast<size_t>(*row) : i;
      float& marked =
          out.values.floats[at * static_cast<size_t>(tokens_) + static_cast<size_t>(token)];
      marked = mode_ == "count" ? marked + 1 : 1;
    }
    Put(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::string input_;
  const ColumnSpec output_;
  const int64_t tokens_;
  const std::string mode_;
};

Made MakeCategoryEncoding(Call call, Specs& columns) {
  const proto::CategoryEncoding& given = call.map.category_encoding();
  if (!IsInt(call.input)) return Wrong(call.input, "integers");
  if (given.tokens() < 1 || given.tokens() > kTokensMax) {
    return absl::InvalidArgumentError(absl::StrCat("num_tokens must be 1 to ", kTokensMax));
  }
  const std::string& mode = given.mode();
  if (mode != "one_hot" && mode != "multi_hot" && mode != "count") {
    return absl::InvalidArgumentError("output_mode must be one_hot, multi_hot or count");
  }
  ColumnSpec& output = call.output;
  output.type = proto::COLUMN_FLOAT32;
  const Shape& shape = call.input.shape;
  const bool is_one = shape.rank() == 0 || (shape.rank() == 1 && shape.dim(0) == 1);
  if (mode != "one_hot" || (is_one && !call.input.varies)) {
    output.shape = Shape({given.tokens()});
    if (mode != "one_hot") output.varies = false;
  } else {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(given.tokens());
    output.shape = Shape(dims);
  }
  const std::string input = call.input.name;
  Put(columns, output);
  return std::make_unique<const CategoryEncoder>(input, std::move(output), given.tokens(), mode);
}

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
    Put(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> inputs_;
  const ColumnSpec output_;
  const uint64_t bins_;
};

// Removes columns. Thread-safe.
class Drop final : public ColumnFunction {
 public:
  explicit Drop(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    for (const std::string& input : inputs_) {
      batch.columns.erase(batch.columns.begin() +
                          static_cast<std::ptrdiff_t>(FindColumn(batch.columns, input)));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> inputs_;
};

Made MakeOfSeveral(const proto::Map& map, Specs& columns) {
  std::vector<std::string> inputs(map.inputs().begin(), map.inputs().end());
  if (map.has_hashed_crossing()) {
    if (inputs.size() < 2) return absl::InvalidArgumentError("it needs at least two columns");
    if (map.hashed_crossing().bins() < 1) {
      return absl::InvalidArgumentError("num_bins must be at least 1");
    }
    for (const std::string& input : inputs) {
      const ColumnSpec& spec = columns[FindColumn(columns, input)];
      const bool fits =
          (IsString(spec) || IsInt(spec)) && !spec.varies && spec.shape.num_elements() == 1;
      if (!fits) return Wrong(spec, "one text or integer of each record");
    }
    ColumnSpec output{map.output(), proto::COLUMN_INT64, Shape()};
    Put(columns, output);
    return std::make_unique<const Crossing>(std::move(inputs), std::move(output),
                                            map.hashed_crossing().bins());
  }
  for (const std::string& input : inputs) {
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(FindColumn(columns, input)));
  }
  return std::make_unique<const Drop>(std::move(inputs));
}

using Maker = Made (*)(Call, Specs&);
struct Named {
  proto::Map::FunctionCase function;
  const char* name;
  Maker make;  // null: a function of several columns
};
constexpr Named kFunctions[] = {
    {proto::Map::kHashing, "Hashing", MakeHashing},
    {proto::Map::kHashedCrossing, "HashedCrossing", nullptr},
    {proto::Map::kLookup, "Lookup", MakeLookup},
    {proto::Map::kDiscretization, "Discretization", MakeDiscretization},
    {proto::Map::kNormalization, "Normalization", MakeNormalization},
    {proto::Map::kCast, "Cast", MakeCast},
    {proto::Map::kDrop, "Drop", nullptr},
    {proto::Map::kLog1P, "Log1p", MakeLog1p},
    {proto::Map::kRescaling, "Rescaling", MakeRescaling},
    {proto::Map::kCategoryEncoding, "CategoryEncoding", MakeCategoryEncoding}};

const Named* FindFunction(const proto::Map& map) {
  for (const Named& one : kFunctions) {
    if (one.function == map.function_case()) return &one;
  }
  return nullptr;
}

Made MakeNamed(const Named& named, const proto::Map& map, Specs& columns) {
  if (map.inputs_size() == 0) return absl::InvalidArgumentError("it names no column");
  for (const std::string& input : map.inputs()) {
    if (std::count(map.inputs().begin(), map.inputs().end(), input) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("it names the column '", Excerpt(input), "' twice"));
    }
    if (FindColumn(columns, input) < columns.size()) continue;
    std::vector<std::string> names;
    for (const ColumnSpec& column : columns) names.push_back(Excerpt(column.name));
    return absl::InvalidArgumentError(absl::StrCat("there is no column '", Excerpt(input),
                                                   "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (named.make == nullptr) return MakeOfSeveral(map, columns);
  if (map.inputs_size() > 1) return absl::InvalidArgumentError("it takes one column");
  const ColumnSpec input = columns[FindColumn(columns, map.inputs(0))];
  ColumnSpec output = input;
  if (!map.output().empty()) output.name = map.output();
  return named.make({map, input, std::move(output)}, columns);
}

}  // namespace

std::string ColumnSpec::TypeText() const {
  static constexpr const char* kNames[] = {"int64", "int32", "float32", "float64", "string"};
  std::vector<std::string> dims;
  if (varies) dims.emplace_back("?");
  for (const int64_t dim : shape.dims()) dims.push_back(absl::StrCat(dim));
  return absl::StrCat(kNames[static_cast<size_t>(type)], "[", absl::StrJoin(dims, ","), "]");
}

const char* FunctionName(const proto::Map& map) {
  const Named* const named = FindFunction(map);
  return named == nullptr ? "nothing" : named->name;
}

Made ColumnFunction::Make(const proto::Map& map, std::vector<ColumnSpec>& columns) {
  const Named* const named = FindFunction(map);
  if (named == nullptr) return absl::InvalidArgumentError("a map has no function");
  Made made = MakeNamed(*named, map, columns);
  if (!made.ok()) return Annotate(made.status(), named->name);
  return made;
}

}  // namespace cohort
