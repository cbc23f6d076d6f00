#include "ps_server/slice/value_before.h"

#include <algorithm>
#include <cstring>

namespace cohort {

void ValueBefore::KeepAll(const Of& of, const PagedValue& value) {
  Forget();
  of_ = of;
  pages_ = value.Lease();
}

void ValueBefore::KeepRows(const Of& of, absl::Span<const int64_t> rows, Read read) {
  Forget();
  of_ = of;
  rows_.assign(rows.begin(), rows.end());
  // The kept rows are sorted, without repetitions, because Find() looks them up by binary search.
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  kept_.resize(rows_.size() * of.row_bytes);
  read(rows_, absl::MakeSpan(kept_));
}

const std::byte* ValueBefore::Find(int64_t row) const {
  if (!pages_.empty()) {
    // All pages but the last have `page_rows` rows, so a division finds the page of the row.
    const auto place = static_cast<size_t>(row - of_.first_row);
    return pages_[place / of_.page_rows].data + place % of_.page_rows * of_.row_bytes;
  }
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), row);
  if (found == rows_.end() || *found != row) return nullptr;
  return kept_.data() + static_cast<size_t>(found - rows_.begin()) * of_.row_bytes;
}

void ValueBefore::TakeBack(absl::Span<const int64_t> rows, absl::Span<std::byte> out) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    // If the round did not change the row, `out` already has the right content.
    const std::byte* const before = Find(rows[i]);
    if (before != nullptr) std::memcpy(out.data() + i * of_.row_bytes, before, of_.row_bytes);
  }
}

Payload ValueBefore::All(const PagedValue& now) const {
  if (!pages_.empty()) return pages_;
  const Payload present = now.Lease();
  if (rows_.empty()) return present;
  // The value is copied before the kept rows are written into it, because readers may hold leases
  // on the slice's own pages.
  const std::shared_ptr<Buffer> whole = Buffer::Allocate(PayloadBytes(present));
  std::byte* out = whole->data();
  for (const ByteSlice& page : present) {
    std::memcpy(out, page.data, page.size);
    out += page.size;
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const auto place = static_cast<size_t>(rows_[i] - of_.first_row);
    std::memcpy(whole->data() + place * of_.row_bytes, kept_.data() + i * of_.row_bytes,
                of_.row_bytes);
  }
  return {ByteSlice{whole, whole->data(), whole->size()}};
}

}  // namespace cohort
