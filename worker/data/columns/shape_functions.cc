// Functions that change how many values a record has: CategoryEncoding, Pad and Drop.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/records/columns/column_values.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

constexpr int64_t kTokensMax = int64_t{1} << 24;

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
      *row = RowOfValue(in, batch.rows, i);
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
    PutColumn(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::string input_;
  const ColumnSpec output_;
  const int64_t tokens_;
  const std::string mode_;
};

// Gives each record of a column that varies equally many steps, as RaggedTensor.to_tensor does with
// a shape. Thread-safe.
class Padder final : public ColumnFunction {
 public:
  // `value` is a value of the column's type. A view in it must outlive the function.
  Padder(std::string input, ColumnSpec output, ColumnValues value, std::string text)
      : input_(std::move(input)),
        output_(std::move(output)),
        text_(std::move(text)),
        value_(std::move(value)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    const DataColumn& in = batch.columns[FindColumn(batch.columns, input_)];
    DataColumn out{output_, {}};
    const int64_t length = output_.shape.dim(0);
    const int64_t step = length == 0 ? 0 : output_.shape.num_elements() / length;
    const auto pad = [&](const auto& from, auto& to, const auto& value) {
      for (size_t i = 0; i + 1 < in.row_splits.size(); ++i) {
        const int64_t begin = in.row_splits[i];
        const int64_t steps = std::min(in.row_splits[i + 1] - begin, length);
        to.insert(to.end(), from.begin() + begin * step, from.begin() + (begin + steps) * step);
        to.resize(to.size() + static_cast<size_t>((length - steps) * step), value);
      }
    };
    switch (output_.type) {
      case proto::COLUMN_FLOAT32:
        pad(in.values.floats, out.values.floats, value_.floats[0]);
        break;
      case proto::COLUMN_FLOAT64:
        pad(in.values.doubles, out.values.doubles, value_.doubles[0]);
        break;
      case proto::COLUMN_STRING:
        pad(in.values.strings, out.values.strings, absl::string_view(text_));
        break;
      default:
        pad(in.values.ints, out.values.ints, value_.ints[0]);
    }
    PutColumn(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::string input_;
  const ColumnSpec output_;
  const std::string text_;    // value of a column of texts
  const ColumnValues value_;  // value of a column of numbers
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

}  // namespace

Made MakeCategoryEncoding(MapCall call, Specs& columns) {
  const proto::CategoryEncoding& given = call.map.category_encoding();
  if (!IsInt(call.input)) return WrongType(call.input, "integers");
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
  PutColumn(columns, output);
  return std::make_unique<const CategoryEncoder>(input, std::move(output), given.tokens(), mode);
}

Made MakePad(MapCall call, Specs& columns) {
  const proto::Pad& given = call.map.pad();
  if (!call.input.varies) {
    return WrongType(call.input, "a column with different numbers of values");
  }
  if (given.length() < 1 || given.length() > kTokensMax) {
    return absl::InvalidArgumentError(absl::StrCat("length must be 1 to ", kTokensMax));
  }
  const proto::DataValues& value = given.value();
  const bool is_float =
      call.input.type == proto::COLUMN_FLOAT32 || call.input.type == proto::COLUMN_FLOAT64;
  const int of_other_type = IsString(call.input) ? value.ints_size() + value.floats_size()
                            : is_float           ? value.strings_size()
                                                 : value.strings_size() + value.floats_size();
  if (of_other_type > 0) return WrongType(call.input, "a value of its own type for padding");
  double number = value.ints_size() > 0 ? static_cast<double>(value.ints(0)) : 0;
  if (value.floats_size() > 0) number = value.floats(0);
  ColumnValues values;
  values.floats = {static_cast<float>(number)};
  values.doubles = {number};
  values.ints = {value.ints_size() > 0 ? value.ints(0) : 0};
  std::vector<int64_t> dims = {given.length()};
  dims.insert(dims.end(), call.input.shape.dims().begin(), call.input.shape.dims().end());
  ColumnSpec& output = call.output;
  output.shape = Shape(dims);
  output.varies = false;
  const std::string input = call.input.name;
  PutColumn(columns, output);
  return std::make_unique<const Padder>(input, std::move(output), std::move(values),
                                        value.strings_size() > 0 ? value.strings(0) : "");
}

Made MakeDrop(const proto::Map& map, Specs& columns) {
  std::vector<std::string> inputs(map.inputs().begin(), map.inputs().end());
  for (const std::string& input : inputs) {
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(FindColumn(columns, input)));
  }
  return std::make_unique<const Drop>(std::move(inputs));
}

}  // namespace cohort
