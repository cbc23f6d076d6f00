#pragma once

// Memory for rows of one size. RowRegions maps regions of huge pages and numbers the rows in them,
// one number after the other; it hands them out in blocks of up to 64 KiB. A RowSlabs makes single
// rows of its blocks. Many RowSlabs (one for each stripe of a table) share the regions, so what
// they hold beyond their rows is a block each, not a huge page each.
//
// Rows never move. Row r is in region r >> shift: regions have a power of two of rows, and there
// are so few that where they begin is always in the cache.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "ps_server/table/huge_pages.h"

namespace cohort {

// Thread-safe.
class RowRegions {
 public:
  static constexpr uint32_t kNoRow = 0xffffffff;

  // Makes regions for rows of `row_bytes`, a multiple of 8.
  explicit RowRegions(size_t row_bytes);

  // Returns the bytes of a row that was handed out to this thread, or to one that it has
  // synchronised with.
  std::byte* At(uint32_t row) const { return begins_[row >> shift_] + (row & mask_) * row_bytes_; }

  static uint32_t RowsInBlock(size_t row_bytes);
  uint32_t rows_in_block() const { return rows_in_block_; }
  // Returns the first of rows_in_block() rows, all bytes zero, or kNoRow if there are about 2^32
  // rows.
  uint32_t Carve();

  // Returns how much of the system's memory has been carved or lost between.
  size_t bytes() const;

 private:
  static constexpr size_t kRegionsMax = 4096;

  const size_t row_bytes_;
  const uint32_t shift_;
  const uint32_t mask_;
  const uint32_t rows_in_block_;
  // An entry is written once, before a row of its region is handed out.
  std::vector<std::byte*> begins_;

  mutable Mutex mutex_;
  std::vector<HugePages> regions_ ABSL_GUARDED_BY(mutex_);
  uint64_t carved_ ABSL_GUARDED_BY(mutex_) = 0;  // rows
};

// Thread-compatible.
class RowSlabs {
 public:
  static constexpr uint32_t kNoRow = RowRegions::kNoRow;

  // Takes rows from `regions`, which outlives this.
  explicit RowSlabs(RowRegions& regions) : regions_(regions) {}

  std::byte* At(uint32_t row) const { return regions_.At(row); }

  // Returns a row with undefined bytes, or kNoRow.
  uint32_t Allocate();
  // Frees an allocated row. The first 4 bytes of it change.
  void Free(uint32_t row);

  // Rows that were ever allocated; what was freed since is among them.
  uint32_t places() const { return used_; }
  uint32_t RowAt(uint32_t place) const {
    const uint32_t in_block = regions_.rows_in_block();
    return blocks_[place / in_block] + place % in_block;
  }

  // Returns the bytes of the numbering beside the rows.
  size_t table_bytes() const { return blocks_.capacity() * sizeof(uint32_t); }
  // Returns what so many rows of this size take at the most, with their numbering.
  static size_t BytesFor(size_t rows, size_t row_bytes);

 private:
  RowRegions& regions_;
  std::vector<uint32_t> blocks_;  // their first rows
  uint32_t used_ = 0;
  uint32_t first_free_ = kNoRow;  // each free row begins with the number of the next
};

}  // namespace cohort
