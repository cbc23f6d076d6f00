#pragma once

// Roughly how often keys without a row were seen lately, in little memory that does not grow with
// their number: a count-min sketch with conservative counting, in two generations. When the current
// one is filled it becomes the last one, and what was the last one is forgotten. So the count of a
// key is never too low for its sights among the last kSightsInGeneration ones, and hardly ever too
// high.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

// Thread-compatible.
class SightCounts {
 public:
  static constexpr size_t kSightsInGeneration = size_t{1} << 14;
  static constexpr size_t kCounters = kSightsInGeneration * 4;

  // Returns how often the hash was seen, including this time.
  uint32_t See(uint64_t hash);

  // Returns the counters of a generation: kCounters or, before the first sight, none.
  absl::Span<const uint8_t> current() const { return current_; }
  absl::Span<const uint8_t> last() const { return last_; }
  size_t sights() const { return sights_; }
  // Counts no sight lower than these counters do, of which there are kCounters each; `sights` are
  // those in the current generation. Where nothing was seen yet this is a copy.
  void Merge(absl::Span<const uint8_t> current, absl::Span<const uint8_t> last, size_t sights);

  size_t bytes() const { return current_.capacity() + last_.capacity(); }
  // The value of bytes() once something was seen.
  static constexpr size_t kBytes = 2 * kCounters;

 private:
  void MakeCounters();
  struct Places {
    size_t a;
    size_t b;
  };
  static Places PlacesOf(uint64_t hash) {
    return {static_cast<size_t>(hash >> 8) % kCounters,
            static_cast<size_t>(hash >> 40) % kCounters};
  }

  // Empty until something is seen.
  std::vector<uint8_t> current_;
  std::vector<uint8_t> last_;
  size_t sights_ = 0;  // sights in the current generation
};

}  // namespace cohort
