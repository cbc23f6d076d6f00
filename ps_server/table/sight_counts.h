#pragma once

// An estimate of how often keys without a row were seen lately, in memory that does not grow with
// the number of keys: a count-min sketch with conservative counting, in two generations. When the
// current generation is full, it becomes the last one, and the former last one is forgotten. So the
// count of a key is never too low for its sights among the last kSightsInGeneration sights, and
// rarely too high.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace cohort {

// The sight counters of one stripe's keys that have no row. Thread-compatible.
class SightCounts {
 public:
  static constexpr size_t kSightsInGeneration = size_t{1} << 14;
  static constexpr size_t kCounters = kSightsInGeneration * 4;

  // Counts one sight of a hash, and returns how often the hash was seen, including this sight.
  uint32_t See(uint64_t hash);

  // Return the counters of the current and of the last generation: kCounters each, or none before
  // the first sight.
  absl::Span<const uint8_t> current() const { return current_; }
  absl::Span<const uint8_t> last() const { return last_; }
  size_t sights() const { return sights_; }
  // Merges saved counters: afterwards no sight is counted lower than in `current` and `last`, which
  // have kCounters each. `sights` is the number of sights in the saved current generation. Without
  // sights of its own, the object becomes a copy of the saved counters.
  void Merge(absl::Span<const uint8_t> current, absl::Span<const uint8_t> last, size_t sights);

  size_t bytes() const { return current_.capacity() + last_.capacity(); }
  // The bytes that the counters take after the first sight.
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

  // Both generations are empty until the first key is seen.
  std::vector<uint8_t> current_;
  std::vector<uint8_t> last_;
  size_t sights_ = 0;  // number of sights in the current generation
};

}  // namespace cohort
