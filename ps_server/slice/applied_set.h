#pragma once

// The closures whose pushes one slice has applied. Closure ids count up, and most closures push to
// every slice, nearly in the order of their ids. So a few intervals hold the set: [1, 812] [814,
// 814] says that closure 813 is still under way. Every id below the watermark counts as contained:
// those closures have ended everywhere, no worker pushes for them again, and the set spends no
// memory on them.
//
// The intervals are disjoint, do not touch, ascend, and lie above the watermark. An interval ends
// where a closure pushed nothing to this slice, so n closures above the watermark make at most (n +
// 1) / 2 intervals. A coordinator that lets fewer than 2 * kAppliedIntervalsMax closures wait for
// the watermark therefore never fills a set.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cohort {

// The maximum number of closure intervals that one slice remembers; they take 512 KiB.
inline constexpr size_t kAppliedIntervalsMax = size_t{1} << 15;

// The set of closures whose pushes one slice has applied. Thread-compatible.
class AppliedSet {
 public:
  struct Interval {
    uint64_t first = 0;
    uint64_t last = 0;  // inclusive, so that the largest id fits too
    bool operator==(const Interval& other) const {
      return first == other.first && last == other.last;
    }
  };

  explicit AppliedSet(size_t intervals_max = kAppliedIntervalsMax)
      : intervals_max_(intervals_max) {}

  // Makes the set that a checkpoint describes. Errors: DATA_LOSS if the intervals overlap, touch,
  // do not ascend or begin below the watermark, or if there are more than kAppliedIntervalsMax.
  static absl::StatusOr<AppliedSet> FromIntervals(uint64_t watermark,
                                                  std::vector<Interval> intervals);

  bool Contains(uint64_t id) const;

  // Adds a closure id to the set. Returns false if the set contained the id already. Errors:
  // RESOURCE_EXHAUSTED (TRANSIENT) if the id needs one more interval than the set has room for; the
  // set is then unchanged.
  absl::StatusOr<bool> Insert(uint64_t id);

  // Raises the watermark. A value below the present watermark changes nothing.
  void RaiseWatermark(uint64_t watermark);

  uint64_t watermark() const { return watermark_; }
  absl::Span<const Interval> intervals() const { return intervals_; }
  size_t size() const { return intervals_.size(); }
  // Returns the bytes that the intervals take, including reserved capacity.
  size_t memory_bytes() const { return intervals_.capacity() * sizeof(Interval); }

  // Aborts unless the intervals are as described above.
  void CheckInvariants() const;

 private:
  // Returns the first interval whose end is `id` or higher.
  std::vector<Interval>::const_iterator EndingFrom(uint64_t id) const;

  size_t intervals_max_;
  uint64_t watermark_ = 0;
  std::vector<Interval> intervals_;
};

}  // namespace cohort
