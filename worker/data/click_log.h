#pragma once

// Rows in the format of Criteo's click logs: a label, 13 integers and 26 categories, of which any
// integer or category may be missing. In a file a row is a line of 40 fields between tabs, the
// categories as 8 hexadecimal digits.
//
// Made-up rows: row i of a seed depends on (seed, i) alone. Every seed draws from the same
// vocabularies, of the sizes of Criteo's own, where value k comes about k times less often than the
// first; and a click has the same causes in all of them: each value of a category has a weight, and
// so does each integer, so that what was learnt from one seed holds for another.

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

struct ClickRow {
  bool click = false;
  std::array<std::optional<int32_t>, kClickIntegers> integers;
  std::array<std::optional<uint32_t>, kClickCategories> categories;

  friend bool operator==(const ClickRow&, const ClickRow&) = default;
};

ClickRow MakeClickRow(uint64_t seed, uint64_t index);

// Parses a line without its end. Errors: INVALID_ARGUMENT naming the field.
absl::StatusOr<ClickRow> ParseClickRow(absl::string_view line);
std::string ClickRowText(const ClickRow& row);

// Returns "dense", "C1" ... "C26", "label".
std::vector<std::string> ClickColumnNames();

// The columns of proto::ClickLog, in its order.
struct ClickColumn {
  std::string name;
  Tensor values;
};
// Errors: INVALID_ARGUMENT for buckets that are not 26 numbers from 1 to 2^31 - 1 or a count
// outside [1, kClickRowsMax]; DATA_LOSS naming file, line and field; those of the file system.
absl::StatusOr<std::vector<ClickColumn>> ReadClickLog(const proto::ClickLog& log,
                                                      FileSystem& files);

}  // namespace cohort
