#pragma once

// Memory of the system's own, in huge pages where it has them: what is reached at random needs few
// entries of the processor's table of pages then.

#include <cstddef>
#include <utility>

namespace cohort {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks for huge pages for what lies wholly in this memory and was not touched yet. Without them it
// is slower to fill, and as good.
void AdviseHugePages(std::byte* begin, size_t bytes);

// Zeros, aligned to a huge page. What is never touched takes no memory. Thread-compatible.
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
  // Returns the size asked for, rounded up to whole pages.
  size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cohort
