#include "common/records/columns/column_values.h"

#include <algorithm>

namespace cohort {

namespace {

template <typename T>
void TruncateOne(std::vector<T>& values, size_t count) {
  values.resize(std::min(values.size(), count));
}

template <typename T>
void AppendOne(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void ColumnValues::Truncate(size_t count) {
  TruncateOne(ints, count);
  TruncateOne(floats, count);
  TruncateOne(doubles, count);
  TruncateOne(strings, count);
}

void ColumnValues::Append(const ColumnValues& other) {
  AppendOne(other.ints, ints);
  AppendOne(other.floats, floats);
  AppendOne(other.doubles, doubles);
  AppendOne(other.strings, strings);
}

}  // namespace cohort
