#pragma once

// Memory that is mapped directly from the operating system, in huge pages if the system has them.
// With huge pages, memory that is accessed at random needs fewer entries in the processor's TLB
// (its cache of page-table entries).

#include <cstddef>
#include <utility>

namespace cohort {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks the operating system to use huge pages for the memory [begin, begin + bytes), as far as this
// memory consists of whole huge pages that have not been touched yet. The operating system may
// refuse: then the memory works too, but it takes longer to fill.
void AdviseHugePages(std::byte* begin, size_t bytes);

// A block of memory that begins at the border of a huge page and is initially zero. Pages that are
// never touched take no physical memory. Thread-compatible.
class HugePages {
 public:
  HugePages() = default;
  explicit HugePages(size_t bytes);
  HugePages(HugePages&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HugePages& operator=(HugePages&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HugePages();

  std::byte* begin() const { return begin_; }
  // Returns the size of the block: the requested size rounded up to whole huge pages.
  size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cohort
