#include "ps_server/table/row_index.h"

namespace cohort {

namespace {

// The size in bytes from which on an index is stored in huge pages. An index of exactly this size
// fills only half of a huge page.
constexpr size_t kLargeBytes = kHugePage / 2;

}  // namespace

RowIndex::Groups::Groups(size_t size) : size_(size) {
  if (size * sizeof(Group) < kLargeBytes) {
    small_.resize(size);
    begin_ = small_.data();
  } else {
    large_ = HugePages(size * sizeof(Group));
    begin_ = reinterpret_cast<Group*>(large_.begin());
  }
}

size_t RowIndex::SizeAfter(size_t groups) {
  // The index grows by only a quarter, so that little of its memory is unused. The max() makes an
  // index of fewer than four groups grow too.
  const size_t grown = std::max(groups + 1, groups / 4 * 5);
  if (grown * sizeof(Group) < kLargeBytes) return grown;
  constexpr size_t kInPage = kHugePage / sizeof(Group);
  return (grown + kInPage - 1) / kInPage * kInPage;
}

size_t RowIndex::BytesFor(size_t rows) {
  size_t groups = 1;
  while (groups * kLoadOfGroup < rows) groups = SizeAfter(groups);
  return groups * sizeof(Group);
}

void RowIndex::Place(Groups& groups, uint64_t hash, uint32_t row) {
  size_t at = GroupOf(hash, groups.size());
  // The loop ends at a free entry, which exists because the index has more entries than rows.
  while (true) {
    Group& group = groups[at];
    const uint32_t empty = Matches(group, 0);
    if (empty != 0) {
      const int place = __builtin_ctz(empty);
      group.tags[place] = TagOf(hash);
      group.rows[place] = row;
      return;
    }
    // A group's `passed` counts the rows that found this group full and are stored in a later
    // group. When the count is at its maximum, it is not raised any more and may be lower than the
    // true number.
    if (group.passed < kPassedMax) ++group.passed;
    at = at + 1 == groups.size() ? 0 : at + 1;
  }
}

void RowIndex::Erase(uint64_t hash, uint32_t row) {
  const uint8_t tag = TagOf(hash);
  size_t at = GroupOf(hash);
  // Visits the groups in the order in which Place() tried them for this row. Lowers `passed` in
  // each group before the one that contains the row.
  for (size_t tried = 0; tried < groups_.size(); ++tried, at = Next(at)) {
    Group& group = groups_[at];
    for (uint32_t match = Matches(group, tag); match != 0; match &= match - 1) {
      const int place = __builtin_ctz(match);
      if (group.rows[place] != row) continue;
      group.tags[place] = 0;
      --rows_;
      return;
    }
    // If a group's `passed` count is at its maximum, the true number of rows is unknown, so the
    // count must not be lowered.
    if (group.passed > 0 && group.passed < kPassedMax) --group.passed;
  }
  COHORT_CHECK(false, "the row is in the index");
}

}  // namespace cohort
