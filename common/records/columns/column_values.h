#pragma once

// Values of one column of records, as parsers make them.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// Values of one type, one after another; the vectors of the other types are empty.
struct ColumnValues {
  std::vector<int64_t> ints = {};
  std::vector<float> floats = {};
  std::vector<double> doubles = {};
  // Views of the records that were read, of a StringArena, or of a default value.
  std::vector<absl::string_view> strings = {};

  size_t size() const { return ints.size() + floats.size() + doubles.size() + strings.size(); }
  // Drops the values behind the first `count`.
  void Truncate(size_t count);
  void Append(const ColumnValues& other);
};

// Strings that are not in the records as they are, such as fields with escaped quotes. Their
// addresses do not change.
using StringArena = std::deque<std::string>;

}  // namespace cohort
