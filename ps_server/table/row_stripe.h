#pragma once

// A part of a dynamic table: the rows whose keys' hashes end alike, with an index of their own.
//
// A batch of keys passes through three stages, each some keys ahead of the next, so that the
// processor waits for many lines of memory at a time instead of one: fetch the line of the index;
// read there which row it probably is, and fetch that row; see whether the row's key is right, and
// use the row. Where the guess was wrong, the last stage searches.

#include <array>

#include "absl/types/span.h"
#include "ps_server/table/prefetch.h"
#include "ps_server/table/row_index.h"
#include "ps_server/table/row_layout.h"
#include "ps_server/table/row_slabs.h"

namespace cohort {

// One key of a batch.
struct KeyAt {
  uint64_t hash;
  uint64_t key;
  uint32_t at;  // which of the batch's keys
};

enum class MissingRow { kCreate, kSkip };

// Thread-compatible.
class RowStripe {
 public:
  RowStripe(const RowLayout& layout, RowMemory& memory)
      : layout_(layout), slabs_(memory, layout.row_bytes()) {}

  // For each key, in order: use.Prefetch(at), and some keys later use.Apply(row, at); the row may
  // change but for its header. `bytes` of a row are fetched beforehand.
  template <typename Use>
  void Visit(absl::Span<const KeyAt> keys, MissingRow missing, size_t bytes, Use use) {
    std::array<uint32_t, kAhead> guesses;
    for (size_t i = 0; i < keys.size() + 2 * kAhead; ++i) {
      if (i >= 2 * kAhead) {
        const KeyAt& key = keys[i - 2 * kAhead];
        std::byte* const row = RowOf(key, guesses[i % kAhead], missing);
        if (row != nullptr) use.Apply(row, key.at);
      }
      if (i >= kAhead && i - kAhead < keys.size()) {
        const KeyAt& key = keys[i - kAhead];
        guesses[i % kAhead] = index_.Guess(key.hash);
        if (guesses[i % kAhead] != RowIndex::kNone) PrefetchRow(guesses[i % kAhead], bytes);
        use.Prefetch(key.at);
      }
      if (i < keys.size()) index_.Prefetch(keys[i].hash);
    }
  }

  // False when there is no such row.
  bool Erase(const KeyAt& key);

  size_t rows() const { return index_.rows(); }
  // What finding rows takes beside the rows.
  size_t index_bytes() const { return index_.bytes() + slabs_.table_bytes(); }

  // The lower byte chooses the stripe. No two keys have the same hash.
  static uint64_t HashOf(uint64_t key) { return Mix64(key + 0x9e3779b97f4a7c15u); }

 private:
  static constexpr size_t kAhead = 16;
  static constexpr size_t kLine = 64;

  bool Holds(uint32_t row, uint64_t key) const {
    const RowHeader& header = RowLayout::Header(slabs_.At(row));
    return header.key == key && header.uses != 0;
  }
  uint32_t Find(const KeyAt& key) const {
    return index_.Find(key.hash, [&](uint32_t row) { return Holds(row, key.key); });
  }
  std::byte* RowOf(const KeyAt& key, uint32_t guess, MissingRow missing) {
    if (guess != RowIndex::kNone && Holds(guess, key.key)) [[likely]]
      return slabs_.At(guess);
    return Search(key, missing);
  }
  void PrefetchRow(uint32_t row, size_t bytes) const {
    const std::byte* const begin = slabs_.At(row);
    for (size_t offset = 0; offset < bytes; offset += kLine) PrefetchLine(begin + offset);
    PrefetchLine(begin + bytes - 1);
  }

  // Null when it is missing and not created.
  std::byte* Search(const KeyAt& key, MissingRow missing);
  uint32_t Create(const KeyAt& key);

  const RowLayout& layout_;
  RowIndex index_;
  RowSlabs slabs_;
};

}  // namespace cohort
