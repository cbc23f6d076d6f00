#include "coordinator/homes/row_split.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"

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
    // The slices of a dynamic table divide the buckets of its keys. So for a key, its bucket is
    // looked for.
    const int64_t row = variable.has_dynamic() ? KeyBucket(ids[place]) : ids[place];
    // The slices are sorted by their first rows. The last one that does not begin after the row
    // contains it.
    const auto behind = std::upper_bound(
        variable.slices().begin(), variable.slices().end(), row,
        [](int64_t id, const proto::SliceHome& slice) { return id < slice.row_begin(); });
    SliceIds& slice = split[static_cast<size_t>(behind - variable.slices().begin()) - 1];
    slice.ids.push_back(ids[place]);
    slice.places.push_back(place);
  }
  return split;
}

Tensor EachOnce(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return Tensor::FromVector(ids, Shape{static_cast<int64_t>(ids.size())});
}

void PutRows(const SliceIds& slice, const Tensor& each_once, absl::Span<const std::byte> came,
             size_t row_bytes, std::byte* out) {
  const absl::Span<const int64_t> sorted = each_once.span<int64_t>();
  for (size_t i = 0; i < slice.ids.size(); ++i) {
    // If an id occurs several times, all of its positions get the same row.
    const auto row = std::lower_bound(sorted.begin(), sorted.end(), slice.ids[i]) - sorted.begin();
    std::memcpy(out + slice.places[i] * row_bytes,
                came.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
  }
}

}  // namespace cohort
