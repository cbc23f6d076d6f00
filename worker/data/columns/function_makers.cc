#include "worker/data/columns/function_makers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// A function of each value of one column. Thread-safe.
class EachValue final : public ColumnFunction {
 public:
  EachValue(std::string input, ColumnSpec output, ComputeEach compute)
      : input_(std::move(input)), output_(std::move(output)), compute_(std::move(compute)) {}

  absl::Status Apply(ColumnBatch& batch, int64_t* row) const override {
    const DataColumn& in = batch.columns[FindColumn(batch.columns, input_)];
    DataColumn out{output_, {}, in.row_splits};
    // Growing a column of images would copy them several times.
    const auto values = static_cast<size_t>(output_.shape.num_elements());
    const auto steps = static_cast<size_t>(output_.varies ? in.row_splits.back() : batch.rows);
    ReserveValues(output_.type, steps * values, out.values);
    size_t at = 0;
    if (absl::Status status = compute_(in.values, out.values, batch.arena, &at); !status.ok()) {
      *row = RowOfValue(in, batch.rows, at);
      return Annotate(status, absl::StrCat("column '", Excerpt(input_), "'"));
    }
    PutColumn(batch, std::move(out));
    return absl::OkStatus();
  }

 private:
  const std::string input_;
  const ColumnSpec output_;
  const ComputeEach compute_;
};

}  // namespace

absl::Status WrongType(const ColumnSpec& spec, absl::string_view need) {
  return absl::InvalidArgumentError(
      absl::StrCat("column '", Excerpt(spec.name), "' is ", spec.TypeText(), "; it takes ", need));
}

void PutColumn(Specs& columns, ColumnSpec spec) {
  const size_t at = FindColumn(columns, spec.name);
  if (at < columns.size()) {
    columns[at] = std::move(spec);
  } else {
    columns.push_back(std::move(spec));
  }
}

void PutColumn(ColumnBatch& batch, DataColumn column) {
  const size_t at = FindColumn(batch.columns, column.spec.name);
  if (at < batch.columns.size()) {
    batch.columns[at] = std::move(column);
  } else {
    batch.columns.push_back(std::move(column));
  }
}

int64_t RowOfValue(const DataColumn& column, int64_t rows, size_t value) {
  const auto size = static_cast<size_t>(std::max<int64_t>(column.spec.shape.num_elements(), 1));
  const auto step = static_cast<int64_t>(value / size);
  if (!column.spec.varies) return std::min(step, rows - 1);
  const auto after = std::upper_bound(column.row_splits.begin(), column.row_splits.end(), step);
  return static_cast<int64_t>(after - column.row_splits.begin()) - 1;
}

Made MakeEach(MapCall call, Specs& columns, ComputeEach compute) {
  const std::string input = call.input.name;
  PutColumn(columns, call.output);
  return std::make_unique<const EachValue>(input, std::move(call.output), std::move(compute));
}

}  // namespace cohort
