#pragma once

// Memory for rows of one size. A RowMemory asks the system for regions of huge pages and carves
// blocks of up to 64 KiB from them; a RowSlabs makes rows of its blocks and numbers them. Many
// RowSlabs (one for each stripe of a table) share a RowMemory, so what they hold beyond their rows
// is a block each, not a huge page each.
//
// Rows never move. Row r is in block r >> shift: blocks have a power of two of rows.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// Thread-safe.
class RowMemory {
 public:
  RowMemory() = default;
  RowMemory(const RowMemory&) = delete;
  ~RowMemory();

  // Zeros, aligned to 64 bytes; they live as long as this.
  std::byte* Carve(size_t bytes);

  // Of the system's memory, what has been carved and what is lost between.
  size_t bytes() const;

 private:
  struct Region {
    std::byte* begin;
    size_t bytes;
  };

  void AddRegionLocked(size_t least) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;       // of the last region
  size_t all_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all regions
};

// Thread-compatible.
class RowSlabs {
 public:
  // A multiple of 8 bytes. `memory` outlives this.
  RowSlabs(RowMemory& memory, size_t row_bytes);

  std::byte* At(uint32_t row) const { return blocks_[row >> shift_] + (row & mask_) * row_bytes_; }

  // A row whose bytes may be anything.
  uint32_t Allocate();
  // Its first 4 bytes change. `row` was allocated and is used no more.
  void Free(uint32_t row);

  // What the numbering takes beside the rows.
  size_t table_bytes() const { return blocks_.capacity() * sizeof(std::byte*); }

 private:
  RowMemory& memory_;
  const size_t row_bytes_;
  const uint32_t shift_;
  const uint32_t mask_;
  std::vector<std::byte*> blocks_;
  uint32_t used_ = 0;                 // rows that were ever allocated
  uint32_t first_free_ = 0xffffffff;  // each free row begins with the number of the next
};

}  // namespace cohort
