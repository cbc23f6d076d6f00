#pragma once

// Memory for the rows of a dynamic table, which all have one size. RowRegions maps large regions of
// huge pages, numbers all rows in them consecutively, and hands out rows in blocks of up to 64 KiB.
// A RowSlabs takes such blocks and allocates single rows from them. Each stripe of a table has its
// own RowSlabs, and all stripes share the regions, so a stripe wastes at most one block, not a huge
// page.
//
// Rows never move. The number of rows in a region is a power of two, so row r lies in region r >>
// shift. There are so few regions that the array of their addresses always stays in the processor's
// cache.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "ps_server/table/huge_pages.h"

namespace cohort {

// The regions of huge pages from which all stripes of a table take blocks of rows. Thread-safe.
class RowRegions {
 public:
  static constexpr uint32_t kNoRow = 0xffffffff;

  // Makes an object without regions yet, for rows of `row_bytes` bytes, which is a multiple of 8.
  explicit RowRegions(size_t row_bytes);

  // Returns the address of row number `row`. The row must have been handed out to this thread, or
  // to a thread with which this thread has synchronised since.
  std::byte* At(uint32_t row) const { return begins_[row >> shift_] + (row & mask_) * row_bytes_; }

  static uint32_t RowsInBlock(size_t row_bytes);
  uint32_t rows_in_block() const { return rows_in_block_; }
  // Hands out a block of rows_in_block() new rows, whose bytes are all zero. Returns the number of
  // the block's first row, or kNoRow if about 2^32 rows have been handed out.
  uint32_t Carve();

  // Returns the size in bytes of all blocks that were handed out, rounded up to whole huge pages of
  // system memory.
  size_t bytes() const;

 private:
  static constexpr size_t kRegionsMax = 4096;

  const size_t row_bytes_;
  const uint32_t shift_;
  const uint32_t mask_;
  const uint32_t rows_in_block_;
  // The address of each region. The address is written once, before the first row of the region is
  // handed out.
  std::vector<std::byte*> begins_;

  mutable Mutex mutex_;
  std::vector<HugePages> regions_ ABSL_GUARDED_BY(mutex_);
  // Number of rows that were handed out, in all regions.
  uint64_t carved_ ABSL_GUARDED_BY(mutex_) = 0;
};

// An allocator of the rows of one stripe, which lie in blocks from the shared regions.
// Thread-compatible.
class RowSlabs {
 public:
  static constexpr uint32_t kNoRow = RowRegions::kNoRow;

  // Makes an allocator that takes blocks from `regions`, which outlives the allocator.
  explicit RowSlabs(RowRegions& regions) : regions_(regions) {}

  std::byte* At(uint32_t row) const { return regions_.At(row); }

  // Allocates a row and returns its number. The row's content is undefined. Returns kNoRow if the
  // regions have no more rows.
  uint32_t Allocate();
  // Frees an allocated row. Overwrites the first 4 bytes of the row.
  void Free(uint32_t row);

  // Returns how many different rows have been allocated so far, including the rows that have been
  // freed since.
  uint32_t places() const { return used_; }
  uint32_t RowAt(uint32_t place) const {
    const uint32_t in_block = regions_.rows_in_block();
    return blocks_[place / in_block] + place % in_block;
  }

  // Returns the size in bytes of the list of blocks, which takes memory besides the rows.
  size_t table_bytes() const { return blocks_.capacity() * sizeof(uint32_t); }
  // Returns the maximum size in bytes that `rows` rows of `row_bytes` bytes take, including the
  // list of blocks.
  static size_t BytesFor(size_t rows, size_t row_bytes);

 private:
  RowRegions& regions_;
  std::vector<uint32_t> blocks_;  // number of the first row of each block
  uint32_t used_ = 0;
  // The number of the first free row. Each free row contains the number of the next free row.
  uint32_t first_free_ = kNoRow;
};

}  // namespace cohort
