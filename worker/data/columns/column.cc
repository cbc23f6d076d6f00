#include "worker/data/columns/column.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cohort {

std::string ColumnSpec::TypeText() const {
  static constexpr const char* kNames[] = {"int64", "int32", "float32", "float64", "string"};
  std::vector<std::string> dims;
  // A dimension that varies shows as a question mark, as TensorFlow shows it.
  if (varies) dims.emplace_back("?");
  for (const int64_t dim : shape.dims()) dims.push_back(absl::StrCat(dim));
  return absl::StrCat(kNames[static_cast<size_t>(type)], "[", absl::StrJoin(dims, ","), "]");
}

}  // namespace cohort
