#pragma once

// Rows in the format of Criteo's click logs: a label, 13 integers and 26 categories. Any integer or
// category may be missing. In a file, a row is a line of 40 tab-separated fields, with the
// categories as 8 hexadecimal digits.
//
// Synthetic rows: row i of a seed depends on (seed, i) alone. All seeds share the vocabularies,
// which have the sizes of Criteo's own; value k of a vocabulary appears about k times less often
// than its first value. All seeds also share the causes of a click: each value of a category has a
// weight, and so does each integer. A model trained on one seed is therefore valid for another.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

inline constexpr size_t kClickIntegers = 13;
inline constexpr size_t kClickCategories = 26;
inline constexpr int64_t kClickRowsMax = int64_t{1} << 26;

// One row of a click log. An empty optional is a missing value.
struct ClickRow {
  bool click = false;
  std::array<std::optional<int32_t>, kClickIntegers> integers;
  std::array<std::optional<uint32_t>, kClickCategories> categories;

  friend bool operator==(const ClickRow&, const ClickRow&) = default;
};

// Returns synthetic row `index` of `seed`.
ClickRow MakeClickRow(uint64_t seed, uint64_t index);

// Parses a line that has no line end. Errors: INVALID_ARGUMENT naming the bad field.
absl::StatusOr<ClickRow> ParseClickRow(absl::string_view line);

// Returns the column names "dense", "C1" ... "C26", "label".
std::vector<std::string> ClickColumnNames();

// One column of a proto::ClickLog, for example all labels or all values of category C1.
struct ClickColumn {
  std::string name;
  Tensor values;
};
// Reads the files of `log`, or makes its synthetic rows if it names no files, and returns the
// columns in the order of ClickColumnNames(). Errors: INVALID_ARGUMENT for buckets that are not 26
// numbers from 1 to 2^31 - 1 or a row count outside [1, kClickRowsMax]; DATA_LOSS naming file, line
// and field; those of the file system.
absl::StatusOr<std::vector<ClickColumn>> ReadClickLog(const proto::ClickLog& log,
                                                      FileSystem& files);

}  // namespace cohort
