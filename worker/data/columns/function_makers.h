#pragma once

// The makers of the functions of columns, one for each class of proto::Map, and what they share. A
// maker checks the parameters and the types of the columns, and changes the types to those that the
// function leaves. Errors: INVALID_ARGUMENT naming the column, its type and the remedy.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/data/columns/column.h"
#include "worker/data/columns/column_function.h"

namespace cohort {

using Specs = std::vector<ColumnSpec>;
using Made = absl::StatusOr<std::unique_ptr<const ColumnFunction>>;

// The arguments of a maker of a function of one column.
struct MapCall {
  const proto::Map& map;
  const ColumnSpec& input;
  ColumnSpec output;  // the input's type under the name of the result
};

Made MakeDiscretization(MapCall call, Specs& columns);
Made MakeNormalization(MapCall call, Specs& columns);
Made MakeRescaling(MapCall call, Specs& columns);
Made MakeLog1p(MapCall call, Specs& columns);
Made MakeCast(MapCall call, Specs& columns);

Made MakeHashing(MapCall call, Specs& columns);
Made MakeLookup(MapCall call, Specs& columns);
Made MakeTextVectorization(MapCall call, Specs& columns);

Made MakeCategoryEncoding(MapCall call, Specs& columns);
Made MakePad(MapCall call, Specs& columns);

Made MakeDecodeImage(MapCall call, Specs& columns);
Made MakeDecodeRaw(MapCall call, Specs& columns);

// The makers of functions of several columns, all of which exist.
Made MakeHashedCrossing(const proto::Map& map, Specs& columns);
Made MakeDrop(const proto::Map& map, Specs& columns);

// What makers share.

inline bool IsInt(const ColumnSpec& spec) {
  return spec.type == proto::COLUMN_INT64 || spec.type == proto::COLUMN_INT32;
}
inline bool IsString(const ColumnSpec& spec) { return spec.type == proto::COLUMN_STRING; }
inline bool IsNumber(const ColumnSpec& spec) { return !IsString(spec); }

// Returns the error for a column whose type a function does not take; `need` says what it takes.
absl::Status WrongType(const ColumnSpec& spec, absl::string_view need);

// Replaces the column of this name, or adds it.
void PutColumn(Specs& columns, ColumnSpec spec);
void PutColumn(ColumnBatch& batch, DataColumn column);

// Returns the row of a value of the column.
int64_t RowOfValue(const DataColumn& column, int64_t rows, size_t value);

// Calls `take` with each number of a column as a double.
template <typename Take>
void ForEachNumber(const ColumnValues& values, Take take) {
  for (const int64_t value : values.ints) take(static_cast<double>(value));
  for (const float value : values.floats) take(static_cast<double>(value));
  for (const double value : values.doubles) take(value);
}

// Computes the values of the result from those of the input, one or equally many for each. `at` is
// set to the number of the value of which an error tells.
using ComputeEach = std::function<absl::Status(const ColumnValues& in, ColumnValues& out,
                                               StringArena& arena, size_t* at)>;
// Makes a function of each value of one column.
Made MakeEach(MapCall call, Specs& columns, ComputeEach compute);

}  // namespace cohort
