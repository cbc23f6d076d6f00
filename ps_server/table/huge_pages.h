#pragma once

// Memory taken directly from the system, in huge pages where the system has them. Memory that is
// accessed at random then needs few entries of the processor's page-table cache.

#include <cstddef>
#include <utility>

namespace cohort {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks the system for huge pages for the part of [begin, begin + bytes) that was not touched yet,
// in whole pages. If the system has no huge pages, the memory works all the same but is filled more
// slowly.
void AdviseHugePages(std::byte* begin, size_t bytes);

// A piece of memory that starts as zeros and is aligned to a huge page. Pages that are never
// touched take no physical memory. Thread-compatible.
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
  // Returns the size that was asked for, rounded up to whole huge pages.
  size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cohort
