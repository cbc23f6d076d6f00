#pragma once

// A batch of records as columns, on the way from a file to the tensors of an element.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/records/columns/column_values.h"
#include "common/tensor/shape.h"
#include "proto/plan.pb.h"

namespace cohort {

// The type of a column.
struct ColumnSpec {
  std::string name;
  proto::ColumnType type = proto::COLUMN_INT64;
  Shape shape = {};     // one record's value; one step, if the column varies
  bool varies = false;  // true: records have different numbers of steps

  // Returns the type for messages, such as "string[]" or "int64[?,2]".
  std::string TypeText() const;
};

// The values of one column of a batch. Integers are in `ints`, whatever their size.
struct DataColumn {
  ColumnSpec spec;
  ColumnValues values;
  // If the column varies: entry i is the number of steps of all records before record i.
  std::vector<int64_t> row_splits = {};
};

struct ColumnBatch {
  int64_t rows = 0;
  std::vector<DataColumn> columns;
  // Owners of the bytes of which the strings are views.
  std::vector<std::unique_ptr<char[]>> memory;
  StringArena arena;
};

// Makes room for so many values of a column of this type.
inline void ReserveValues(proto::ColumnType type, size_t count, ColumnValues& values) {
  switch (type) {
    case proto::COLUMN_FLOAT32:
      return values.floats.reserve(count);
    case proto::COLUMN_FLOAT64:
      return values.doubles.reserve(count);
    case proto::COLUMN_STRING:
      return values.strings.reserve(count);
    default:
      return values.ints.reserve(count);
  }
}

// Returns the place of the column of this name, or the number of columns.
inline size_t FindColumn(const std::vector<ColumnSpec>& columns, absl::string_view name) {
  size_t i = 0;
  while (i < columns.size() && columns[i].name != name) ++i;
  return i;
}
inline size_t FindColumn(const std::vector<DataColumn>& columns, absl::string_view name) {
  size_t i = 0;
  while (i < columns.size() && columns[i].spec.name != name) ++i;
  return i;
}

}  // namespace cohort
