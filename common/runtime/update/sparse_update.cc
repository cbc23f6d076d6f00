#include "common/runtime/update/sparse_update.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace cohort {

namespace {

// The number of gradient elements that UpdateAllRows gathers for one update of consecutive rows.
// They fit in the processor's first-level cache.
constexpr size_t kSweptElements = 1024;
// The number of rows that UpdateSomeRows updates at a time, while it prefetches the memory of as
// many further rows.
constexpr size_t kFetchedRows = 16;

}  // namespace

MergedRows::MergedRows(absl::Span<const int64_t> rows, absl::Span<const float> gradients,
                       size_t width)
    : width_(width) {
  COHORT_CHECK(width > 0 && gradients.size() == rows.size() * width,
               "there is one row of gradients for each row");
  rows_.reserve(rows.size());
  // Workers push rows in strictly ascending order. Such rows are neither sorted nor added up.
  const bool ascending =
      std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
  if (!ascending) {
    MergeUnsorted(rows, gradients.data());
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) rows_.push_back({rows[i], gradients.data() + i * width});
}

// Sorts the gradients by row and adds the gradients of each row in the order in which they were
// pushed. Sorting pairs of (row, position in the push) brings the rows, and the gradients of each
// row, into order.
void MergedRows::MergeUnsorted(absl::Span<const int64_t> rows, const float* gradients) {
  std::vector<std::pair<int64_t, size_t>> order;
  order.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) order.emplace_back(rows[i], i);
  std::sort(order.begin(), order.end());
  // Counts the rows that have more than one gradient: each of them needs a sum.
  size_t repeated = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const bool first = i == 0 || order[i - 1].first != order[i].first;
    if (first && order[i + 1].first == order[i].first) ++repeated;
  }
  sums_.reserve(repeated * width_);  // rows_ has pointers into sums_, which must not move
  // Each iteration takes all gradients of one row. A row with only one gradient is not copied.
  for (size_t i = 0; i < order.size();) {
    const auto [row, at] = order[i++];
    const float* gradient = gradients + at * width_;
    if (i < order.size() && order[i].first == row) {
      sums_.insert(sums_.end(), gradient, gradient + width_);
      float* const sum = sums_.data() + sums_.size() - width_;
      for (; i < order.size() && order[i].first == row; ++i) {
        const float* const more = gradients + order[i].second * width_;
        for (size_t k = 0; k < width_; ++k) sum[k] += more[k];
      }
      gradient = sum;
    }
    rows_.push_back({row, gradient});
  }
}

void UpdateSomeRows(const UpdateKernel& kernel, const MergedRows& gradients, UpdateStep& step,
                    RowPlace place) {
  COHORT_CHECK(step.slots.size() <= kRowSlotsMax, "a rule has at most kRowSlotsMax slots for rows");
  // Two batches of rows take turns: the memory of one batch is prefetched while the other batch is
  // updated.
  std::array<std::array<RowUpdate, kFetchedRows>, 2> groups;
  size_t found = 0;
  const auto find = [&](std::array<RowUpdate, kFetchedRows>& group) {
    const size_t count = std::min(kFetchedRows, gradients.size() - found);
    for (size_t i = 0; i < count; ++i, ++found) {
      RowUpdate& row = group[i];
      row.gradient = gradients.gradient(found).data();
      place(static_cast<size_t>(gradients.row(found)), row);
      PrefetchFloats(row.value, gradients.width());
      for (size_t k = 0; k < step.slots.size(); ++k) {
        PrefetchFloats(row.slots[k], step.slots[k].out.size());
      }
    }
    return count;
  };
  size_t count = find(groups[0]);
  for (size_t group = 0; count > 0; group = 1 - group) {
    const size_t next = find(groups[1 - group]);
    kernel.ApplyRows(absl::MakeConstSpan(groups[group]).first(count), step);
    count = next;
  }
}

void UpdateAllRows(const UpdateKernel& kernel, const MergedRows& gradients, size_t num_rows,
                   UpdateStep& step, RowMemory memory) {
  const size_t width = gradients.width();
  const size_t rows_at_once = std::max<size_t>(kSweptElements / width, 1);
  std::vector<float> swept(rows_at_once * width);
  size_t next = 0;
  // Each iteration updates consecutive rows that are contiguous in memory.
  for (size_t first = 0; first < num_rows;) {
    const size_t count = memory(first, std::min(rows_at_once, num_rows - first), step);
    std::fill_n(swept.begin(), count * width, 0.0f);
    // Copies the gradients of the rows of this iteration; rows without a gradient keep their zeros.
    for (; next < gradients.size(); ++next) {
      const size_t row = static_cast<size_t>(gradients.row(next)) - first;
      if (row >= count) break;
      const absl::Span<const float> gradient = gradients.gradient(next);
      std::copy(gradient.begin(), gradient.end(), swept.data() + row * width);
    }
    step.gradient = absl::MakeConstSpan(swept).subspan(0, count * width);
    kernel.Apply(step);
    first += count;
  }
}

}  // namespace cohort
