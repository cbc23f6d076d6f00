#include "ps_server/table/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "common/base/check.h"

namespace cohort {

// Only whole aligned pages can become huge pages, so the ends of the memory range are left out. The
// result of madvise() is ignored, because small pages work as well.
void AdviseHugePages(std::byte* begin, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const size_t before = (kHugePage - address % kHugePage) % kHugePage;
  if (bytes < before + kHugePage) return;
  madvise(begin + before, (bytes - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
}

// Maps one huge page more than needed to have room for the alignment, and returns the memory before
// and after the aligned block to the system.
HugePages::HugePages(size_t bytes) : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
  void* const mapped = mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  COHORT_CHECK(mapped != MAP_FAILED, "memory for a table");
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = (kHugePage - address % kHugePage) % kHugePage;
  begin_ = static_cast<std::byte*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < kHugePage) munmap(begin_ + bytes_, kHugePage - before);
  AdviseHugePages(begin_, bytes_);
}

HugePages::~HugePages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

}  // namespace cohort
