#include "ps_server/table/row_slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace cohort {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegionMax = size_t{64} << 20;
constexpr size_t kBlockMax = size_t{64} << 10;
constexpr size_t kLine = 64;
constexpr uint32_t kNoRow = 0xffffffff;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Aligned to a huge page: what the mapping has before and after is given back.
std::byte* MapHugePages(size_t bytes) {
  void* const mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  COHORT_CHECK(mapped != MAP_FAILED, "memory for the rows of a table");
  std::byte* const begin = static_cast<std::byte*>(mapped);
  const size_t before =
      RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + bytes, kHugePage - before);
  // Only advice: without huge pages rows are slower to reach, and as good.
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

// Of the power of two of rows that makes up a block.
uint32_t BlockShift(size_t row_bytes) {
  uint32_t shift = 0;
  while ((row_bytes << (shift + 1)) <= kBlockMax) ++shift;
  return shift;
}

}  // namespace

RowMemory::~RowMemory() {
  for (const Region& region : regions_) munmap(region.begin, region.bytes);
}

// A region takes memory only where it is touched, so it may be large: there is a limit to how many
// mappings a process has.
void RowMemory::AddRegionLocked(size_t least) {
  const size_t wanted = std::clamp(all_bytes_ / 4, kHugePage, kRegionMax);
  const size_t bytes = RoundUp(std::max(wanted, least), kHugePage);
  regions_.push_back({MapHugePages(bytes), bytes});
  all_bytes_ += bytes;
  left_ = bytes;
}

std::byte* RowMemory::Carve(size_t bytes) {
  MutexLock lock(mutex_);
  const size_t size = RoundUp(bytes, kLine);
  if (left_ < size) AddRegionLocked(size);
  const Region& region = regions_.back();
  std::byte* const block = region.begin + (region.bytes - left_);
  left_ -= size;
  return block;
}

size_t RowMemory::bytes() const {
  MutexLock lock(mutex_);
  return all_bytes_ - left_ / kHugePage * kHugePage;
}

RowSlabs::RowSlabs(RowMemory& memory, size_t row_bytes)
    : memory_(memory),
      row_bytes_(row_bytes),
      shift_(BlockShift(row_bytes)),
      mask_((uint32_t{1} << shift_) - 1) {
  COHORT_CHECK(row_bytes > 0 && row_bytes % 8 == 0, "rows of whole words");
}

uint32_t RowSlabs::Allocate() {
  if (first_free_ != kNoRow) {
    const uint32_t row = first_free_;
    std::memcpy(&first_free_, At(row), sizeof(first_free_));
    return row;
  }
  COHORT_CHECK(used_ != kNoRow, "at most 2^32 - 1 rows in a stripe");
  if (used_ >> shift_ == blocks_.size()) {
    blocks_.push_back(memory_.Carve(row_bytes_ << shift_));
  }
  return used_++;
}

void RowSlabs::Free(uint32_t row) {
  std::memcpy(At(row), &first_free_, sizeof(first_free_));
  first_free_ = row;
}

}  // namespace cohort
