#pragma once

// A part of a dynamic table: the rows whose keys' hashes end alike, with an index of their own.
//
// A batch of keys passes through three stages, each a group of keys ahead of the next, so that the
// processor waits for many lines of memory at a time instead of one: fetch the line of the index;
// read there which row it probably is, and fetch that row; see whether the row's key is right, and
// use the row. Where the guess was wrong, the last stage searches. Each stage goes through its
// group in loops of few instructions: a fetch whose page has to be looked up first holds up what
// comes behind it, and only what fits beside it into the processor's window waits at the same time.
// Updates are collected, and made some rows at a time.
//
// What a push does follows from the rows, the sights and `swept` alone, not from where rows lie or
// how the index has grown: what is drawn or looked at is all that lies in a range of hashes. So a
// copy that holds the same goes the same way (table_state.h).

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
#include "ps_server/table/sight_counts.h"

namespace cohort {

// A key of a batch.
struct KeyAt {
  uint64_t hash;
  uint64_t key;
  uint32_t at;  // index in the batch
};

// The parameters of a push, beside its keys. `step` has what is the same for all rows.
struct RowPush {
  const UpdateKernel& kernel;
  const float* gradients;  // a row for each of the batch's keys
  UpdateStep& step;
  uint32_t now = 0;
};

// Counts of what happened to keys, in all.
struct RowCounts {
  uint64_t dropped = 0;  // gradients of keys that were not admitted
  uint64_t expired = 0;
  uint64_t evicted = 0;
};

// The rules that the stripes of a table share; constant.
struct RowRules {
  RowLayout layout;
  RowPolicy policy;
  int32_t ttl = 0;             // in RowTime's ticks; 0: none
  size_t stripe_rows_max = 0;  // 0: no limit
};

// Thread-compatible.
class RowStripe {
 public:
  // Makes an empty stripe. `rules` and `regions` outlive it.
  RowStripe(const RowRules& rules, RowRegions& regions)
      : rules_(rules), layout_(rules.layout), slabs_(regions) {}

  // Copies the rows' values, each to its key's place in `out`.
  void Pull(absl::Span<const KeyAt> keys, uint32_t now, float* out) const;
  void Push(absl::Span<const KeyAt> keys, const RowPush& push);

  // Calls visit(row) for each row, also for those that have expired and were not removed yet, in an
  // order that follows from the pushes.
  template <typename Visit>
  void ForEachRow(Visit visit) const {
    for (uint32_t place = 0; place < slabs_.places(); ++place) {
      std::byte* const row = slabs_.At(slabs_.RowAt(place));
      if (RowLayout::Header(row).uses != 0) visit(row);
    }
  }
  // Removes all rows and sights.
  void Clear();
  // Adds a row for a key that has none; the caller sets its bytes after the key. Returns null if
  // there are about 2^32 rows.
  std::byte* Add(const KeyAt& key, uint32_t now);

  size_t rows() const { return index_.rows(); }
  // Returns the bytes that finding rows takes beside the rows.
  size_t index_bytes() const { return index_.bytes() + slabs_.table_bytes() + sights_.bytes(); }
  const RowCounts& counts() const { return counts_; }

  const SightCounts& sights() const { return sights_; }
  SightCounts& sights() { return sights_; }
  // Returns the hash at which the search for expired rows goes on.
  uint64_t swept() const { return swept_; }
  void SweepFrom(uint64_t hash) { swept_ = hash; }

  // Returns the key's hash, which no other key has. The lower byte chooses the stripe.
  static uint64_t HashOf(uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15u); }

 private:
  class Updates;
  static constexpr size_t kGroup = 32;
  static constexpr uint32_t kNone = RowIndex::kNone;
  using Guesses = std::array<uint32_t, kGroup>;

  // Calls prefetch(at) for each key, in order, and some keys later use(key, row or kNone). `bytes`
  // of a row are fetched beforehand.
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
  // Guesses the keys' rows, and fetches them.
  void PrefetchRows(absl::Span<const KeyAt> keys, size_t bytes, Guesses& guesses) const;

  bool Expired(const RowHeader& header, uint32_t now) const {
    return rules_.ttl != 0 && RowTime::Age(header.stamp, now) >= rules_.ttl;
  }
  bool IsAdmitted(const KeyAt& key, uint64_t step);
  // Returns the new row, or kNone if the key gets no row now.
  uint32_t MakeRow(const KeyAt& key, const RowPush& push, Updates& updates);
  // Returns whether one more row would not fit.
  bool IsAtLimit() const {
    return rules_.stripe_rows_max != 0 && index_.rows() >= rules_.stripe_rows_max;
  }
  uint32_t Insert(const KeyAt& key);
  void Remove(uint32_t row);
  // Removes the worst of some rows, which `draw` chooses.
  void Evict(uint64_t draw, uint32_t now);
  // Returns whether the policy evicts `row` before `other`. Of equal rows the first one after the
  // hash `from` goes.
  bool IsWorse(uint32_t row, uint32_t other, uint64_t from, uint32_t now) const;
  // Removes what has expired among about so many rows, which are others each time.
  void Sweep(size_t rows, uint32_t now);
  // Returns the distance between the hashes at the ends of a range of about so many rows.
  uint64_t RangeOf(size_t rows) const;
  // Returns the rows with hashes from `first` to `last` (0 follows the largest), in any order.
  // Valid until the next call.
  absl::Span<const uint32_t> RowsIn(uint64_t first, uint64_t last);

  const RowRules& rules_;
  const RowLayout& layout_;
  RowIndex index_;
  RowSlabs slabs_;
  SightCounts sights_;
  RowCounts counts_;
  uint64_t swept_ = 0;
  std::vector<uint32_t> in_range_;  // what RowsIn has found
};

}  // namespace cohort
