#pragma once

// Rows in the format of Criteo's click logs: a label (click or no click), 13 integers and 26
// categories. Any integer or category may be missing. In a file, a row is a line of 40
// tab-separated fields, with the categories as 8 hexadecimal digits.
//
// Rows can also be made up. Synthetic row i of a seed depends on the seed and i alone. All seeds
// share the vocabularies of the categories, which have the sizes of Criteo's; value k of a
// vocabulary appears about k times less often than its first value. All seeds also share the causes
// of a click: each value of a category has a weight, and so does each integer column. So a model
// that was trained on the rows of one seed can be evaluated on the rows of another.

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

// One row of a click log. An empty optional stands for a missing value.
struct ClickRow {
  bool click = false;
  std::array<std::optional<int32_t>, kClickIntegers> integers;
  std::array<std::optional<uint32_t>, kClickCategories> categories;

  friend bool operator==(const ClickRow&, const ClickRow&) = default;
};

// Returns the synthetic row number `index` of a seed.
ClickRow MakeClickRow(uint64_t seed, uint64_t index);

// Parses one line of a click log, without a line end. Errors: INVALID_ARGUMENT naming the bad
// field.
absl::StatusOr<ClickRow> ParseClickRow(absl::string_view line);

// Returns the column names "dense", "C1" ... "C26", "label".
std::vector<std::string> ClickColumnNames();

// One column of a proto::ClickLog, for example all labels or all values of category C1.
struct ClickColumn {
  std::string name;
  Tensor values;
};
// Reads the files of `log`, or makes synthetic rows if `log` names no files. Returns the columns in
// the order of ClickColumnNames(). Errors: INVALID_ARGUMENT for `log.buckets` that are not 26
// numbers from 1 to 2^31 - 1, for a number of synthetic rows outside [1, kClickRowsMax], and for
// files with more rows than that; DATA_LOSS naming the file, line and field; those of the file
// system.
absl::StatusOr<std::vector<ClickColumn>> ReadClickLog(const proto::ClickLog& log,
                                                      FileSystem& files);

}  // namespace cohort
