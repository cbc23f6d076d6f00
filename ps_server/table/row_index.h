#pragma once

// An index that finds the row of a key. The index holds neither keys nor values, only 5 bytes for a
// row: a tag (8 bits of the key's hash) and the row's number. The caller must compare the key in
// the row with the key that it looks for: the tag of another key matches in 1 of 255 cases.
//
// A group is one cache line with up to 12 rows. A row belongs in the group that its hash names; if
// that group is full, the row goes into the first group after it that is not full. Each full group
// that a row was moved past counts the row in `passed`. So a search ends at the first group whose
// `passed` is 0, and erasing a row leaves no tombstone: the erasure clears the tag and lowers the
// counts. A count that reaches 255 stays at 255 until the next growth, which only makes searches
// longer.
//
// The group of a hash is the hash's upper part scaled to the number of groups. Any number of groups
// is therefore possible, and the index grows by a quarter (a large index by whole huge pages). The
// lowest 8 bits of the hash are left for the choice of a stripe, and the next 8 bits are the tag.

#include <algorithm>
#include <cstdint>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/base/check.h"
#include "common/base/prefetch.h"
#include "ps_server/table/huge_pages.h"

namespace cohort {

// The index from the hashes of keys to row numbers. Thread-compatible.
class RowIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  size_t rows() const { return rows_; }
  size_t bytes() const { return groups_.size() * sizeof(Group); }

  void Prefetch(uint64_t hash) const { PrefetchLine(&groups_[GroupOf(hash)]); }

  // Returns a row of the hash's own group that has the hash's tag, or kNone. In most cases Find
  // would return the same row.
  uint32_t Guess(uint64_t hash) const {
    const Group& group = groups_[GroupOf(hash)];
    const uint32_t match = Matches(group, TagOf(hash));
    return match == 0 ? kNone : group.rows[__builtin_ctz(match)];
  }

  // Returns the row for which is_row(row) is true among the rows inserted under `hash`, or kNone.
  template <typename IsRow>
  uint32_t Find(uint64_t hash, IsRow is_row) const {
    const uint8_t tag = TagOf(hash);
    size_t at = GroupOf(hash);
    for (size_t tried = 0; tried < groups_.size(); ++tried, at = Next(at)) {
      const Group& group = groups_[at];
      for (uint32_t match = Matches(group, tag); match != 0; match &= match - 1) {
        const uint32_t row = group.rows[__builtin_ctz(match)];
        if (is_row(row)) return row;
      }
      if (group.passed == 0) return kNone;
    }
    return kNone;
  }

  // Calls visit(row) once for each row that was inserted under a hash from `first` to `last` (0
  // follows the largest hash), and also for some rows outside that range. A caller that filters the
  // visited rows by their hashes gets a result that depends only on which rows exist, not on how
  // they were inserted.
  template <typename Visit>
  void VisitFrom(uint64_t first, uint64_t last, Visit visit) const {
    const size_t begin = GroupOf(first);
    const size_t end = GroupOf(last);
    const size_t further = last >= first ? end - begin : groups_.size() - begin + end;
    size_t at = begin;
    for (size_t visited = 0; visited < groups_.size(); ++visited, at = Next(at)) {
      VisitRows(groups_[at], visit);
      // A row that belongs in one of the visited groups but lies further on has moved past all
      // groups between, so a group that no row has passed ends the search.
      if (visited >= further && groups_[at].passed == 0) return;
    }
  }

  // Returns true if the index must Grow before the next row is inserted.
  bool full() const { return rows_ >= groups_.size() * kLoadOfGroup; }

  // Returns the bytes of an index that has never held more than `rows` rows.
  static size_t BytesFor(size_t rows);

  // Inserts a row that is not in the index yet; the index must not be full().
  void Insert(uint64_t hash, uint32_t row) {
    COHORT_CHECK(!full(), "a full index grows first");
    Place(groups_, hash, row);
    ++rows_;
  }

  // Erases a row that was inserted under `hash`.
  void Erase(uint64_t hash, uint32_t row);

  // Grows the index by a quarter. hash_of(row) returns the hash under which the row was inserted;
  // prefetch(row) is called some groups before hash_of(row).
  template <typename HashOf, typename Prefetch>
  void Grow(HashOf hash_of, Prefetch prefetch) {
    Groups grown(SizeAfter(groups_.size()));
    for (size_t at = 0; at < groups_.size(); ++at) {
      if (at + kAhead < groups_.size()) VisitRows(groups_[at + kAhead], prefetch);
      VisitRows(groups_[at], [&](uint32_t row) { Place(grown, hash_of(row), row); });
    }
    groups_ = std::move(grown);
  }

 private:
  static constexpr uint32_t kWidth = 12;
  // The average number of rows in a group when the index is full. The groups are then 83 % full,
  // and about one search in twelve goes on to a second group.
  static constexpr size_t kLoadOfGroup = 10;
  static constexpr size_t kAhead = 4;
  static constexpr uint8_t kPassedMax = 255;

  struct alignas(64) Group {
    uint8_t tags[kWidth] = {};  // 0 marks an empty place
    uint8_t passed = 0;
    uint8_t unused[3] = {};  // tags are compared sixteen bytes at a time
    uint32_t rows[kWidth] = {};
  };
  static_assert(sizeof(Group) == 64);

  // An array of empty groups; a large array lies in huge pages. Thread-compatible.
  class Groups {
   public:
    explicit Groups(size_t size);
    size_t size() const { return size_; }
    Group& operator[](size_t i) { return begin_[i]; }
    const Group& operator[](size_t i) const { return begin_[i]; }

   private:
    std::vector<Group> small_;
    HugePages large_;
    Group* begin_;
    size_t size_;
  };
  static size_t SizeAfter(size_t groups);

  static uint8_t TagOf(uint64_t hash) {
    const uint8_t tag = static_cast<uint8_t>(hash >> 8);
    return tag == 0 ? 1 : tag;
  }
  static size_t GroupOf(uint64_t hash, size_t groups) {
    return static_cast<size_t>((static_cast<unsigned __int128>(hash) * groups) >> 64);
  }
  size_t GroupOf(uint64_t hash) const { return GroupOf(hash, groups_.size()); }
  size_t Next(size_t at) const { return at + 1 == groups_.size() ? 0 : at + 1; }

  // Returns a mask in which bit i is set if the group's tag i is `tag`.
  static uint32_t Matches(const Group& group, uint8_t tag) {
#if defined(__SSE2__)
    const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(&group));
    const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<uint32_t>(_mm_movemask_epi8(equal)) & ((1u << kWidth) - 1);
#else
    uint32_t matches = 0;
    for (uint32_t i = 0; i < kWidth; ++i) matches |= uint32_t{group.tags[i] == tag} << i;
    return matches;
#endif
  }

  template <typename Visit>
  static void VisitRows(const Group& group, Visit visit) {
    for (uint32_t i = 0; i < kWidth; ++i) {
      if (group.tags[i] != 0) visit(group.rows[i]);
    }
  }

  static void Place(Groups& groups, uint64_t hash, uint32_t row);

  Groups groups_ = Groups(1);
  size_t rows_ = 0;
};

}  // namespace cohort
