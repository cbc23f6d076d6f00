#include "ps_server/table/row_slabs.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace cohort {

namespace {

constexpr size_t kRegionBytesMax = size_t{128} << 20;
// The upper bound of the size in bytes of a block of rows, unless a single row is larger. A stripe
// takes one block from the regions at a time.
constexpr size_t kBlockBytesMax = size_t{64} << 10;

// Returns log2 of the largest power-of-two number of rows that fit into `bytes`, or 0 if not even
// one row fits.
uint32_t ShiftFor(size_t row_bytes, size_t bytes) {
  uint32_t shift = 0;
  while ((row_bytes << (shift + 1)) <= bytes) ++shift;
  return shift;
}

}  // namespace

RowRegions::RowRegions(size_t row_bytes)
    : row_bytes_(row_bytes),
      shift_(ShiftFor(row_bytes, kRegionBytesMax)),
      mask_((uint32_t{1} << shift_) - 1),
      rows_in_block_(RowsInBlock(row_bytes)) {
  COHORT_CHECK(row_bytes > 0 && row_bytes % 8 == 0, "a row has a positive multiple of 8 bytes");
  // kNoRow is a number in the last possible region. That region is never used, so no row has the
  // number kNoRow.
  begins_.resize(std::min(kRegionsMax, (size_t{1} << 32) >> shift_));
}

uint32_t RowRegions::RowsInBlock(size_t row_bytes) {
  return uint32_t{1} << ShiftFor(row_bytes, kBlockBytesMax);
}

uint32_t RowRegions::Carve() {
  MutexLock lock(mutex_);
  // A block and a region each have a power-of-two number of rows, so a block lies in one region.
  const size_t region = carved_ >> shift_;
  if (region + 1 >= begins_.size()) return kNoRow;
  if (region == regions_.size()) {
    regions_.emplace_back(row_bytes_ << shift_);
    begins_[region] = regions_.back().begin();
  }
  const uint64_t first = carved_;
  carved_ += rows_in_block_;
  return static_cast<uint32_t>(first);
}

size_t RowRegions::bytes() const {
  MutexLock lock(mutex_);
  if (regions_.empty()) return 0;
  // All regions but the last are full. In the last region, only the huge pages that contain rows
  // are counted.
  const uint64_t in_last = carved_ - (static_cast<uint64_t>(regions_.size() - 1) << shift_);
  const size_t last = (in_last * row_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  return (regions_.size() - 1) * regions_[0].bytes() + last;
}

uint32_t RowSlabs::Allocate() {
  if (first_free_ != kNoRow) {
    const uint32_t row = first_free_;
    // Each free row contains the number of the next free row, so the list of free rows takes no
    // extra memory.
    std::memcpy(&first_free_, At(row), sizeof(first_free_));
    return row;
  }
  if (used_ == blocks_.size() * regions_.rows_in_block()) {
    const uint32_t first = regions_.Carve();
    if (first == kNoRow) return kNoRow;
    blocks_.push_back(first);
  }
  return RowAt(used_++);
}

// Each block counts with two numbers in the list of blocks, because the capacity of the blocks_
// vector may be twice its size.
size_t RowSlabs::BytesFor(size_t rows, size_t row_bytes) {
  const size_t in_block = RowRegions::RowsInBlock(row_bytes);
  const size_t blocks = (rows + in_block - 1) / in_block;
  return blocks * (in_block * row_bytes + 2 * sizeof(uint32_t));
}

void RowSlabs::Free(uint32_t row) {
  std::memcpy(At(row), &first_free_, sizeof(first_free_));
  first_free_ = row;
}

}  // namespace cohort
