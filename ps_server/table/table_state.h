#pragma once

// The state of a dynamic table beside its rows: the table's time, the sights of keys that have no
// row yet, and the place where the search for expired rows continues. A copy of a table that has
// rows and this state treats every later step as the table itself does.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The time of a dynamic table: how long the table has been trained. The time advances with the
// steps that are applied, by the times that the steps bring, and never by the clock of the process
// that holds the table. So copies of a table that have applied the same steps have the same time,
// and so has a restored table that applies a step again. The times of two coordinators cannot be
// compared, and no time passes between them: with another coordinator the table's time continues
// from where it was. Thread-compatible.
struct StepClock {
  // The time at which a step was first sent to a worker, by the clock of the step's coordinator.
  struct StepTime {
    uint64_t ms = 0;
    uint64_t coordinator = 0;  // the incarnation of the coordinator
  };

  uint64_t ms = 0;  // the table's time
  StepTime last;    // the latest send time of all applied steps

  // Advances the table's time to an applied step. A step that was sent before the latest applied
  // step changes nothing.
  void Advance(const StepTime& step) {
    if (step.coordinator != last.coordinator) {
      last = step;
    } else if (step.ms > last.ms) {
      ms += step.ms - last.ms;
      last.ms = step.ms;
    }
  }

  absl::Time Now() const { return absl::FromUnixMillis(static_cast<int64_t>(ms)); }

  friend bool operator==(const StepClock& a, const StepClock& b) {
    return a.ms == b.ms && a.last.ms == b.last.ms && a.last.coordinator == b.last.coordinator;
  }
};

// An estimate of how often the keys of one stripe that have no row were seen lately, in memory that
// does not grow with the number of keys: a count-min sketch with conservative counting, in two
// generations. When the current generation is full, it becomes the last one, and the former last
// one is forgotten. So the count of a key is never too low for its sights among the last
// kSightsInGeneration sights, and rarely too high. Thread-compatible.
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

struct TableState {
  StepClock clock;
  // The fields of each stripe, int64[kStripes, 2]: the number of sights in the current generation,
  // and the hash at which the search for expired rows continues (the bits of a uint64).
  Tensor stripes;
  // The sight counters, uint8[kStripes, 2, kCounters], of the current and of the last generation.
  // No elements: no key was seen.
  Tensor sights;

  static constexpr int64_t kStripes = 16;
  static Shape StripesShape() { return Shape{kStripes, 2}; }
  static Shape SightsShape() {
    return Shape{kStripes, 2, static_cast<int64_t>(SightCounts::kCounters)};
  }
};

}  // namespace cohort
