#pragma once

// One stripe of a dynamic table: the rows of all keys whose hashes end in the same bits, with an
// index of their own.
//
// Keys of a batch are processed in groups that pass through three stages, so that the processor
// waits for many cache lines at once instead of one at a time. Stage 1 prefetches each key's cache
// line in the index. Stage 2 reads in the index which row probably belongs to the key, and
// prefetches this row. Stage 3 checks whether the row has the right key; if it does not, stage 3
// searches the index for the right row. While a group is in stage 3, the next group is in stage 2
// and the one after in stage 1. Each stage is a loop of few instructions, because a prefetch that
// misses the TLB delays the instructions after it, and only prefetches within the processor's
// instruction window overlap. Updates are collected and applied for several rows at a time.
//
// The effect of a push depends only on the rows, the counts of seen keys (sights) and the hash
// swept(), because rows to evict and expired rows are searched by ranges of hashes. The effect does
// not depend on where rows lie in memory or how the index has grown. So a copy of the stripe with
// the same rows and state changes in the same way (table_state.h).

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/prefetch.h"
#include "common/runtime/update/update_kernel.h"
#include "ps_server/table/row_index.h"
#include "ps_server/table/row_layout.h"
#include "ps_server/table/row_policy.h"
#include "ps_server/table/row_slabs.h"
#include "ps_server/table/table_state.h"

namespace cohort {

// A key of a batch with its hash.
struct KeyAt {
  uint64_t hash;
  uint64_t key;
  uint32_t at;  // index of the key in the batch
};

// The parameters of a push, without its keys. `step` has the parameters that are equal for all
// rows, and `now` the table's time in RowTime ticks.
struct RowPush {
  const UpdateKernel& kernel;
  const float* gradients;  // one row of gradient for each key of the batch
  UpdateStep& step;
  uint32_t now = 0;
};

// The constant settings that all stripes of a table share.
struct RowRules {
  RowLayout layout;
  RowPolicy policy;
  int32_t ttl = 0;  // age in RowTime ticks at which a row expires; 0 if rows never expire
  size_t stripe_rows_max = 0;  // maximum number of rows in each stripe; 0 for no limit
};

// The rows of one stripe, with their index, the counts of seen keys without a row (sights), and the
// counts of dropped gradients, expired rows and evicted rows. Thread-compatible.
class RowStripe {
 public:
  // Makes a stripe without rows. `rules` and `regions` outlive the stripe.
  RowStripe(const RowRules& rules, RowRegions& regions)
      : rules_(rules), layout_(rules.layout), slabs_(regions) {}

  // Copies the values of each key's row to `out`, which has one row for each key of the batch;
  // KeyAt::at is the row's index there. A key without a row is read as the initial values of its
  // row.
  void Pull(absl::Span<const KeyAt> keys, uint32_t now, float* out) const;
  void Push(absl::Span<const KeyAt> keys, const RowPush& push);

  // Calls visit(row) for each row, including expired rows that have not been removed yet. The same
  // pushes always lead to the same order.
  template <typename Visit>
  void ForEachRow(Visit visit) const {
    for (uint32_t place = 0; place < slabs_.places(); ++place) {
      std::byte* const row = slabs_.At(slabs_.RowAt(place));
      if (RowLayout::Header(row).uses != 0) visit(row);
    }
  }
  // Removes all rows, and sets the counts of seen keys, dropped gradients, expired rows and evicted
  // rows to zero.
  void Clear();
  // Adds a row for a key that has none, after evicting another row if the stripe is at its limit.
  // Writes only the key to the new row; the caller writes the rest. Returns null if the table has
  // about 2^32 rows.
  std::byte* Add(const KeyAt& key, uint32_t now);

  size_t rows() const { return index_.rows(); }
  // Returns the bytes that the stripe takes besides its rows: the index, the list of blocks and the
  // counters of seen keys.
  size_t index_bytes() const { return index_.bytes() + slabs_.table_bytes() + sights_.bytes(); }
  const RowCounts& counts() const { return counts_; }
  RowCounts& counts() { return counts_; }

  const SightCounts& sights() const { return sights_; }
  SightCounts& sights() { return sights_; }
  // Returns the hash at which the next search for expired rows (Sweep) begins.
  uint64_t swept() const { return swept_; }
  void SweepFrom(uint64_t hash) { swept_ = hash; }

  // Returns the hash of a key. Different keys have different hashes. The lowest bits of the hash
  // select the stripe.
  static uint64_t HashOf(uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15u); }

 private:
  class Updates;
  static constexpr size_t kGroup = 32;
  static constexpr uint32_t kNone = RowIndex::kNone;
  using Guesses = std::array<uint32_t, kGroup>;

  // Calls prefetch(at) for the index `at` of each key of the batch in order, and some keys later
  // use(key, row), with row = kNone for a key without a row. The first `bytes` bytes of the row are
  // prefetched before use() is called.
  template <typename Prefetch, typename Use>
  void Visit(absl::Span<const KeyAt> keys, size_t bytes, Prefetch prefetch, Use use) const {
    Guesses current;
    Guesses next;
    for (size_t first = 0; first < keys.size() + 2 * kGroup; first += kGroup) {
      for (const KeyAt& key : keys.subspan(std::min(first, keys.size()), kGroup)) {
        index_.Prefetch(key.hash);
      }
      if (first < kGroup) continue;
      const auto guessed = keys.subspan(std::min(first - kGroup, keys.size()), kGroup);
      PrefetchRows(guessed, bytes, next);
      for (const KeyAt& key : guessed) prefetch(key.at);
      if (first >= 2 * kGroup) {
        const auto used = keys.subspan(first - 2 * kGroup, kGroup);
        for (size_t i = 0; i < used.size(); ++i) use(used[i], RowOf(used[i], current[i]));
      }
      std::swap(current, next);
    }
  }

  bool Holds(uint32_t row, uint64_t key) const {
    const RowHeader& header = RowLayout::Header(slabs_.At(row));
    return header.key == key && header.uses != 0;
  }
  uint32_t Find(const KeyAt& key) const {
    return index_.Find(key.hash, [&](uint32_t row) { return Holds(row, key.key); });
  }
  uint32_t RowOf(const KeyAt& key, uint32_t guess) const {
    if (guess != kNone && Holds(guess, key.key)) [[likely]]
      return guess;
    return Find(key);
  }
  // Guesses the row of each key by the index, writes the row numbers to `guesses`, and prefetches
  // the first `bytes` bytes of the guessed rows.
  void PrefetchRows(absl::Span<const KeyAt> keys, size_t bytes, Guesses& guesses) const;

  bool Expired(const RowHeader& header, uint32_t now) const {
    return rules_.ttl != 0 && RowTime::Age(header.stamp, now) >= rules_.ttl;
  }
  bool IsAdmitted(const KeyAt& key, uint64_t step);
  // Makes a row for a key and returns the row's number. Returns kNone if the policy does not admit
  // the key, or if the table can have no more rows.
  uint32_t MakeRow(const KeyAt& key, const RowPush& push, Updates& updates);
  // Returns whether the stripe has as many rows as the table's limit of bytes permits.
  bool IsAtLimit() const {
    return rules_.stripe_rows_max != 0 && index_.rows() >= rules_.stripe_rows_max;
  }
  uint32_t Insert(const KeyAt& key);
  void Remove(uint32_t row);
  // Removes one row to make room for a new row. `draw` selects a few rows, of which the worst by
  // IsWorse is removed.
  void Evict(uint64_t draw, uint32_t now);
  // Returns whether the policy evicts `row` rather than `other`. If the policy takes both as
  // equally bad, the one whose hash comes first, counted from `from` on, is evicted.
  bool IsWorse(uint32_t row, uint32_t other, uint64_t from, uint32_t now) const;
  // Removes the expired rows in a range of hashes that contains about `rows` rows. Each call
  // searches the range that follows that of the call before.
  void Sweep(size_t rows, uint32_t now);
  // Returns the width of a range of hashes that contains about `rows` rows.
  uint64_t RangeOf(size_t rows) const;
  // Returns the rows with hashes in the range from `first` to `last` (0 follows the largest hash),
  // in any order. The result is valid until RowsIn() is called again.
  absl::Span<const uint32_t> RowsIn(uint64_t first, uint64_t last);

  const RowRules& rules_;
  const RowLayout& layout_;
  RowIndex index_;
  RowSlabs slabs_;
  SightCounts sights_;
  RowCounts counts_;
  uint64_t swept_ = 0;
  std::vector<uint32_t> in_range_;  // the row numbers that the last call of RowsIn() has returned
};

}  // namespace cohort
