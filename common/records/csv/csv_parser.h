#pragma once

// Reads one CSV record into columns, as TensorFlow's CsvDataset does (tf.data.experimental).
//
// A field that begins with a quote ends with one; quotes in it are doubled. Quotes elsewhere are
// errors, and so are blanks before a quote. An empty field, quoted or not, and the missing value
// count as missing and take the column's default. Blanks around numbers are passed over; those
// around strings are part of them, unless `trim` is set.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/records/columns/column_values.h"

namespace cohort {

enum class CsvType { kInt32, kInt64, kFloat32, kFloat64, kString };

// Returns NumPy's name: "int32" or "string".
absl::string_view CsvTypeName(CsvType type);

struct CsvColumn {
  std::string name;  // for messages
  CsvType type = CsvType::kString;
  bool is_read = true;  // false: the field is passed over
  // One value of the column's type for missing fields (integers in `ints`, whatever their size);
  // absent: a missing field is an error.
  std::optional<ColumnValues> default_value = {};
};

struct CsvOptions {
  char delimiter = ',';
  bool quotes = true;         // false: quotes are text
  std::string na_value = {};  // a field with this text is missing
  bool trim = false;          // true: blanks around every field that is not quoted are dropped
};

// Parses records one after another. Thread-safe.
class CsvParser {
 public:
  // Makes a parser of records with these fields, in their order in the file. Errors:
  // INVALID_ARGUMENT for a delimiter that is a quote or a line end, and naming a column whose
  // default does not fit its type.
  static absl::StatusOr<CsvParser> Make(std::vector<CsvColumn> columns, CsvOptions options);

  const std::vector<CsvColumn>& columns() const { return columns_; }
  const CsvOptions& options() const { return options_; }

  // Appends one value to each column that is read; `values` has an entry for each column. Strings
  // become views of `record` or of `arena`. Errors: INVALID_ARGUMENT naming the column, the field
  // and what is wrong; the columns are then as before.
  absl::Status Append(absl::string_view record, absl::Span<ColumnValues> values,
                      StringArena& arena) const;

 private:
  using Fields = absl::InlinedVector<absl::string_view, 32>;

  CsvParser(std::vector<CsvColumn> columns, CsvOptions options);
  absl::Status AppendFields(absl::string_view record, absl::Span<ColumnValues> values,
                            StringArena& arena) const;
  // Appends the fields of a record that has no quotes.
  void SplitPlain(absl::string_view record, Fields& fields) const;
  absl::StatusOr<absl::string_view> TakeField(absl::string_view& rest, bool* is_last,
                                              StringArena& arena) const;
  absl::Status AppendField(size_t column, absl::string_view field, ColumnValues& values) const;

  const std::vector<CsvColumn> columns_;
  const CsvOptions options_;
};

}  // namespace cohort
