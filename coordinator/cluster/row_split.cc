#include "coordinator/cluster/row_split.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/tensor/key_bucket.h"

namespace cohort {

absl::Status CheckRows(const std::string& variable, int64_t rows, absl::Span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (id >= 0 && id < rows) continue;
    return absl::OutOfRangeError(
        absl::StrCat("variable ", variable, " has ", rows, " rows: there is no id ", id));
  }
  return absl::OkStatus();
}

std::vector<SliceIds> SplitRows(const proto::VariableLayout& variable,
                                absl::Span<const int64_t> ids) {
  std::vector<SliceIds> split(static_cast<size_t>(variable.slices_size()));
  for (size_t place = 0; place < ids.size(); ++place) {
    const int64_t row = variable.has_dynamic() ? KeyBucket(ids[place]) : ids[place];
    const auto behind = std::upper_bound(
        variable.slices().begin(), variable.slices().end(), row,
        [](int64_t id, const proto::SliceHome& slice) { return id < slice.row_begin(); });
    SliceIds& slice = split[static_cast<size_t>(behind - variable.slices().begin()) - 1];
    slice.ids.push_back(ids[place]);
    slice.places.push_back(place);
  }
  return split;
}

}  // namespace cohort
