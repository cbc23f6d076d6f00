#pragma once

// One stripe of a dynamic table: the rows whose keys' hashes have the same lowest bits, with an
// index of their own.
//
// A batch of keys passes through three stages, each one group of keys ahead of the next, so that
// the processor waits for many cache lines at a time instead of one. Stage 1 prefetches the line of
// the index. Stage 2 reads there which row is probably the key's, and prefetches that row. Stage 3
// checks whether the row has the right key, and uses the row; if the guess was wrong, stage 3
// searches. Each stage goes through its group in loops of few instructions: a prefetch that misses
// the processor's page-table cache holds up the instructions after it, and only the prefetches that
// fit into the processor's window overlap. Updates are collected and applied some rows at a time.
//
// The effect of a push depends only on the rows, the sights and `swept`, not on where rows lie or
// how the index has grown, because rows are drawn and searched by ranges of hashes. So a copy of
// the stripe with equal rows and state develops as the stripe does (table_state.h).

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

// A key of a batch, with its hash.
struct KeyAt {
  uint64_t hash;
  uint64_t key;
  uint32_t at;  // the key's index in the batch
};

// The parameters of a push apart from its keys. `step` has what is equal for all rows.
struct RowPush {
  const UpdateKernel& kernel;
  const float* gradients;  // one row for each key of the batch
  UpdateStep& step;
  uint32_t now = 0;
};

// The counts of events since the table was made.
struct RowCounts {
  uint64_t dropped = 0;  // gradients of keys that got no row
  uint64_t expired = 0;
  uint64_t evicted = 0;
};

// The constant rules that all stripes of a table share.
struct RowRules {
  RowLayout layout;
  RowPolicy policy;
  int32_t ttl = 0;             // in ticks of RowTime; 0: rows never expire
  size_t stripe_rows_max = 0;  // 0: no limit
};

// The rows of one stripe with their index, sights and counts. Thread-compatible.
class RowStripe {
 public:
  // Makes an empty stripe. `rules` and `regions` outlive the stripe.
  RowStripe(const RowRules& rules, RowRegions& regions)
      : rules_(rules), layout_(rules.layout), slabs_(regions) {}

  // Copies the values of the keys' rows to `out`, each at its key's index in the batch.
  void Pull(absl::Span<const KeyAt> keys, uint32_t now, float* out) const;
  void Push(absl::Span<const KeyAt> keys, const RowPush& push);

  // Calls visit(row) for each row, including rows that have expired and were not removed yet. The
  // order depends only on the pushes so far.
  template <typename Visit>
  void ForEachRow(Visit visit) const {
    for (uint32_t place = 0; place < slabs_.places(); ++place) {
      std::byte* const row = slabs_.At(slabs_.RowAt(place));
      if (RowLayout::Header(row).uses != 0) visit(row);
    }
  }
  // Removes all rows and sights of the stripe.
  void Clear();
  // Adds a row for a key that has none; the caller then fills the row's bytes after the key.
  // Returns null if the table has about 2^32 rows.
  std::byte* Add(const KeyAt& key, uint32_t now);

  size_t rows() const { return index_.rows(); }
  // Returns the bytes that the index, the list of blocks and the sight counters take beside the
  // rows.
  size_t index_bytes() const { return index_.bytes() + slabs_.table_bytes() + sights_.bytes(); }
  const RowCounts& counts() const { return counts_; }

  const SightCounts& sights() const { return sights_; }
  SightCounts& sights() { return sights_; }
  // Returns the hash at which the search for expired rows continues.
  uint64_t swept() const { return swept_; }
  void SweepFrom(uint64_t hash) { swept_ = hash; }

  // Returns the hash of a key, which no other key has. The lowest byte of the hash chooses the
  // stripe.
  static uint64_t HashOf(uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15u); }

 private:
  class Updates;
  static constexpr size_t kGroup = 32;
  static constexpr uint32_t kNone = RowIndex::kNone;
  using Guesses = std::array<uint32_t, kGroup>;

  // Calls prefetch(at) for each key in order, and use(key, row or kNone) some keys later. The first
  // `bytes` bytes of each row are prefetched before use() is called.
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
  // Guesses the row of each key and prefetches the first `bytes` bytes of the guessed rows.
  void PrefetchRows(absl::Span<const KeyAt> keys, size_t bytes, Guesses& guesses) const;

  bool Expired(const RowHeader& header, uint32_t now) const {
    return rules_.ttl != 0 && RowTime::Age(header.stamp, now) >= rules_.ttl;
  }
  bool IsAdmitted(const KeyAt& key, uint64_t step);
  // Makes a row for a key. Returns the new row, or kNone if the key is not admitted or no row is
  // left.
  uint32_t MakeRow(const KeyAt& key, const RowPush& push, Updates& updates);
  // Returns whether the stripe has as many rows as the table's limit of bytes permits.
  bool IsAtLimit() const {
    return rules_.stripe_rows_max != 0 && index_.rows() >= rules_.stripe_rows_max;
  }
  uint32_t Insert(const KeyAt& key);
  void Remove(uint32_t row);
  // Removes the worst of some rows, which `draw` chooses, to make room for a new row.
  void Evict(uint64_t draw, uint32_t now);
  // Returns whether the policy evicts `row` before `other`. Of equally bad rows, the first one at
  // or after the hash `from` goes.
  bool IsWorse(uint32_t row, uint32_t other, uint64_t from, uint32_t now) const;
  // Removes the expired rows among about `rows` rows; each call looks at the next range of hashes.
  void Sweep(size_t rows, uint32_t now);
  // Returns the width of a range of hashes in which about `rows` rows are expected.
  uint64_t RangeOf(size_t rows) const;
  // Returns the rows with hashes from `first` to `last` (0 follows the largest hash), in any order.
  // The result is valid until the next call.
  absl::Span<const uint32_t> RowsIn(uint64_t first, uint64_t last);

  const RowRules& rules_;
  const RowLayout& layout_;
  RowIndex index_;
  RowSlabs slabs_;
  SightCounts sights_;
  RowCounts counts_;
  uint64_t swept_ = 0;
  std::vector<uint32_t> in_range_;  // the result of the last RowsIn()
};

}  // namespace cohort
