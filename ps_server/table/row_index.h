#pragma once

// An index that finds the row of a key by the key's hash. It stores no keys and no values, only 5
// bytes for each row: a tag (8 bits of the hash) and the row's number. Different keys can have the
// same tag (one in 255), so the caller must compare the key in a found row with the wanted key.
//
// The index is an array of groups. A group is one cache line and has up to 12 rows. The hash of a
// row's key selects the row's group. If that group is full, the row is stored in the next group
// that is not full, and each full group on the way counts the row in its `passed`. So a search ends
// at the first group whose `passed` is 0. Erasing a row needs no tombstone: it clears the row's tag
// and lowers `passed` in the groups on the way. A count that reaches 255 stays at 255 until the
// index grows, which only makes searches longer.
//
// The group of a hash is found by scaling the hash's upper bits to the number of groups. So any
// number of groups is possible, and the index grows by a quarter (a large index by whole huge
// pages). The lowest 8 bits of the hash are left for selecting the stripe of the table, and the
// next 8 bits are the tag.

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

// An index from hashes of keys to row numbers. Thread-compatible.
class RowIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  size_t rows() const { return rows_; }
  size_t bytes() const { return groups_.size() * sizeof(Group); }

  void Prefetch(uint64_t hash) const { PrefetchLine(&groups_[GroupOf(hash)]); }

  // Returns a row whose tag is that of the hash, from the first group that a search visits, or
  // kNone if this group has no such row. In most cases the result is the row that Find would
  // return.
  uint32_t Guess(uint64_t hash) const {
    const Group& group = groups_[GroupOf(hash)];
    const uint32_t match = Matches(group, TagOf(hash));
    return match == 0 ? kNone : group.rows[__builtin_ctz(match)];
  }

  // Returns a row that was inserted under `hash` and for which is_row(row) is true, or kNone if
  // there is no such row.
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

  // Calls visit(row) once for each row whose hash lies in the range from `first` to `last` (0
  // follows the largest hash), and also for some rows outside the range. If the caller ignores the
  // rows outside the range, the visited rows depend only on which rows exist, not on the order of
  // insertions.
  template <typename Visit>
  void VisitFrom(uint64_t first, uint64_t last, Visit visit) const {
    const size_t begin = GroupOf(first);
    const size_t end = GroupOf(last);
    const size_t further = last >= first ? end - begin : groups_.size() - begin + end;
    size_t at = begin;
    for (size_t visited = 0; visited < groups_.size(); ++visited, at = Next(at)) {
      VisitRows(groups_[at], visit);
      // If the hash of a row selects a visited group but the row is stored in a later group, all
      // groups between count the row in `passed`. So no such row lies beyond a group whose `passed`
      // is 0.
      if (visited >= further && groups_[at].passed == 0) return;
    }
  }

  // Returns whether Grow must be called before the next row is inserted.
  bool full() const { return rows_ >= groups_.size() * kLoadOfGroup; }

  // Returns the size in bytes that an index has after growing to `rows` rows.
  static size_t BytesFor(size_t rows);

  // Inserts a row that is not in the index yet. The index must not be full().
  void Insert(uint64_t hash, uint32_t row) {
    COHORT_CHECK(!full(), "the index has room");
    Place(groups_, hash, row);
    ++rows_;
  }

  // Removes the row `row`, which was inserted under `hash`.
  void Erase(uint64_t hash, uint32_t row);

  // Increases the number of groups by a quarter. hash_of(row) must return the hash under which a
  // row was inserted. prefetch(row) is called some time before hash_of(row), so that it can fetch
  // the row's memory into the cache.
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
  // The index counts as full when its groups have this number of rows on average. Then 83 % of the
  // entries are used, and about one search in twelve visits a second group.
  static constexpr size_t kLoadOfGroup = 10;
  static constexpr size_t kAhead = 4;
  static constexpr uint8_t kPassedMax = 255;

  struct alignas(64) Group {
    uint8_t tags[kWidth] = {};  // tag of each entry; 0 if the entry is empty
    uint8_t passed = 0;
    // Fills `tags` up to 16 bytes, because tags are compared 16 bytes at a time.
    uint8_t unused[3] = {};
    uint32_t rows[kWidth] = {};
  };
  static_assert(sizeof(Group) == 64);

  // An array of groups, all empty at first. A large array is stored in huge pages.
  // Thread-compatible.
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

  // Returns a bit mask of the group's entries whose tag is `tag`: bit i stands for entry i.
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
