#pragma once

// Memory for rows of one size. RowRegions maps regions of huge pages, numbers their rows
// consecutively and hands the rows out in blocks of up to 64 KiB. A RowSlabs divides its blocks
// into single rows. Many RowSlabs (one for each stripe of a table) share the regions, so each of
// them wastes at most a block, not a huge page.
//
// Rows never move. Row r is in region r >> shift, because each region has a power of two of rows.
// There are so few regions that the array of their addresses is always in the cache.

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

  // Makes regions for rows of `row_bytes` bytes, a multiple of 8.
  explicit RowRegions(size_t row_bytes);

  // Returns the memory of a row. The row was handed out to this thread, or to a thread with which
  // this thread has synchronised.
  std::byte* At(uint32_t row) const { return begins_[row >> shift_] + (row & mask_) * row_bytes_; }

  static uint32_t RowsInBlock(size_t row_bytes);
  uint32_t rows_in_block() const { return rows_in_block_; }
  // Returns the number of the first of rows_in_block() new rows, all bytes zero, or kNoRow if about
  // 2^32 rows are handed out.
  uint32_t Carve();

  // Returns the bytes of the system's memory that were handed out as blocks, rounded up to huge
  // pages.
  size_t bytes() const;

 private:
  static constexpr size_t kRegionsMax = 4096;

  const size_t row_bytes_;
  const uint32_t shift_;
  const uint32_t mask_;
  const uint32_t rows_in_block_;
  // The address of each region, written once, before the first row of the region is handed out.
  std::vector<std::byte*> begins_;

  mutable Mutex mutex_;
  std::vector<HugePages> regions_ ABSL_GUARDED_BY(mutex_);
  uint64_t carved_ ABSL_GUARDED_BY(mutex_) = 0;  // number of rows handed out
};

// The rows of one stripe, allocated from blocks of the shared regions. Thread-compatible.
class RowSlabs {
 public:
  static constexpr uint32_t kNoRow = RowRegions::kNoRow;

  // Makes an allocator that takes its rows from `regions`, which outlives the allocator.
  explicit RowSlabs(RowRegions& regions) : regions_(regions) {}

  std::byte* At(uint32_t row) const { return regions_.At(row); }

  // Returns the number of a row whose bytes are undefined, or kNoRow if the regions have no more
  // rows.
  uint32_t Allocate();
  // Frees an allocated row. The first 4 bytes of the row change.
  void Free(uint32_t row);

  // Returns the number of rows that were ever taken from blocks, including rows that are free now.
  uint32_t places() const { return used_; }
  uint32_t RowAt(uint32_t place) const {
    const uint32_t in_block = regions_.rows_in_block();
    return blocks_[place / in_block] + place % in_block;
  }

  // Returns the bytes that the list of blocks takes beside the rows.
  size_t table_bytes() const { return blocks_.capacity() * sizeof(uint32_t); }
  // Returns the maximum number of bytes that `rows` rows of `row_bytes` take, with the list of
  // blocks.
  static size_t BytesFor(size_t rows, size_t row_bytes);

 private:
  RowRegions& regions_;
  std::vector<uint32_t> blocks_;  // the first row of each block
  uint32_t used_ = 0;
  uint32_t first_free_ = kNoRow;  // each free row begins with the number of the next free one
};

}  // namespace cohort
