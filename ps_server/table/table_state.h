#pragma once

// The state that a dynamic table has besides its rows: the table's time, the counts of seen keys
// that have no row yet (sights), and the hash at which the search for expired rows continues. A
// copy of a table with the same rows and state processes all later steps as the original does.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The time of a dynamic table, which measures how long the table has been trained. When a step is
// applied, the time advances by the difference between the send times of this step and of the step
// before; the clock of the process that holds the table is not used. So copies of a table that have
// applied the same steps have the same time, and a restored table that applies the steps again gets
// the same time. The send times of two coordinators cannot be compared: when the coordinator
// changes, the table's time continues from its present value. Thread-compatible.
struct StepClock {
  // The time at which the coordinator first sent a step to a worker, by the coordinator's clock.
  struct StepTime {
    uint64_t ms = 0;
    uint64_t coordinator = 0;  // incarnation of the coordinator that sent the step
  };

  uint64_t ms = 0;  // the table's time in milliseconds
  StepTime last;    // latest send time among the steps that were applied

  // Advances the table's time to the send time of an applied step. If a step with a later send time
  // was applied before, nothing changes.
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

// An estimate of how often each key without a row was seen recently in one stripe, in memory that
// does not grow with the number of keys. It is a count-min sketch with conservative counting, with
// two generations of counters. When the current generation has counted kSightsInGeneration sights,
// it becomes the last generation, and the former last generation is forgotten. For the most recent
// kSightsInGeneration sights, the count of a key is never too low and rarely too high.
// Thread-compatible.
class SightCounts {
 public:
  static constexpr size_t kSightsInGeneration = size_t{1} << 14;
  static constexpr size_t kCounters = kSightsInGeneration * 4;

  // Counts one sight of the key with the given hash. Returns the estimate of how often the key was
  // seen, including this sight.
  uint32_t See(uint64_t hash);

  // Return the counters of the current generation and of the last generation: kCounters counters
  // each, or none if no key was seen yet.
  absl::Span<const uint8_t> current() const { return current_; }
  absl::Span<const uint8_t> last() const { return last_; }
  size_t sights() const { return sights_; }
  // Merges saved counters into this object: afterwards each key's count is at least as high as in
  // the saved generations `current` and `last` (kCounters counters each). `sights` is the number of
  // sights in the saved current generation. If this object has counted nothing, it becomes a copy
  // of the saved counters.
  void Merge(absl::Span<const uint8_t> current, absl::Span<const uint8_t> last, size_t sights);

  size_t bytes() const { return current_.capacity() + last_.capacity(); }
  // The size of both generations of counters in bytes.
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

  // The two generations of counters; both are empty until the first key is seen.
  std::vector<uint8_t> current_;
  std::vector<uint8_t> last_;
  size_t sights_ = 0;  // number of sights that the current generation has counted
};

// Counts of dropped gradients, expired rows and evicted rows since the job began with the table.
// When a job returns to a cut, the counts go on from those of the cut.
struct RowCounts {
  uint64_t dropped = 0;  // gradients that were dropped because their keys got no row
  uint64_t expired = 0;
  uint64_t evicted = 0;

  void Add(const RowCounts& other) {
    dropped += other.dropped;
    expired += other.expired;
    evicted += other.evicted;
  }
};

struct TableState {
  StepClock clock;
  // For each stripe, as int64[kStripes, 2], the number of sights in the current generation, and the
  // hash at which the search for expired rows continues (the bits of a uint64).
  Tensor stripes;
  // The counters of seen keys, of the current and the last generation, as uint8[kStripes, 2,
  // kCounters]. The tensor has no elements if no key was seen.
  Tensor sights;
  // The counts of dropped gradients, expired rows and evicted rows, summed over the stripes.
  RowCounts counts = {};

  static constexpr int64_t kStripes = 16;
  static Shape StripesShape() { return Shape{kStripes, 2}; }
  static Shape SightsShape() {
    return Shape{kStripes, 2, static_cast<int64_t>(SightCounts::kCounters)};
  }
};

}  // namespace cohort
