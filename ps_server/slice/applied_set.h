#pragma once

// The set of closures whose pushes one slice has applied. Closure ids count up, and most closures
// push to every slice, nearly in the order of their ids. So the set is kept as a few intervals of
// ids: [1, 812] [814, 814] says that only closure 813 is missing. Every id below the watermark
// counts as contained and takes no memory: these closures have ended, and no worker pushes for them
// again.
//
// The intervals are disjoint, do not touch, ascend, and lie above the watermark. Two intervals are
// separated by a closure that pushed nothing to this slice, so n closures above the watermark make
// at most (n + 1) / 2 intervals. The set never becomes full if the coordinator keeps fewer than 2 *
// kAppliedIntervalsMax closures above the watermark.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cohort {

// The maximum number of intervals of closure ids that one slice remembers. They take 512 KiB.
inline constexpr size_t kAppliedIntervalsMax = size_t{1} << 15;

// The set of closures whose pushes one slice has applied. Thread-compatible.
class AppliedSet {
 public:
  struct Interval {
    uint64_t first = 0;
    // The last id that belongs to the interval, so that an interval can end at the largest uint64.
    uint64_t last = 0;
    bool operator==(const Interval& other) const {
      return first == other.first && last == other.last;
    }
  };

  explicit AppliedSet(size_t intervals_max = kAppliedIntervalsMax)
      : intervals_max_(intervals_max) {}

  // Makes the set from the watermark and the intervals that a checkpoint has. Errors: DATA_LOSS if
  // the intervals overlap, touch, do not ascend or begin below the watermark, or if there are more
  // than kAppliedIntervalsMax.
  static absl::StatusOr<AppliedSet> FromIntervals(uint64_t watermark,
                                                  std::vector<Interval> intervals);

  bool Contains(uint64_t id) const;

  // Adds a closure id to the set. Returns false if the set already contained the id. Errors:
  // RESOURCE_EXHAUSTED (TRANSIENT) if the id needs a new interval and the set has the maximum
  // number of intervals; the set is then unchanged.
  absl::StatusOr<bool> Insert(uint64_t id);

  // Raises the watermark and forgets the ids below it, which count as contained from then on. A
  // value below the present watermark changes nothing.
  void RaiseWatermark(uint64_t watermark);

  uint64_t watermark() const { return watermark_; }
  absl::Span<const Interval> intervals() const { return intervals_; }
  size_t size() const { return intervals_.size(); }
  // Returns the size in bytes of the list of intervals, including its unused capacity.
  size_t memory_bytes() const { return intervals_.capacity() * sizeof(Interval); }

  // Aborts if the set has more intervals than its maximum, or if an interval begins below the
  // watermark or does not leave a gap after the interval before it.
  void CheckInvariants() const;

 private:
  // Returns the first interval whose last id is `id` or higher, or end() if there is none.
  std::vector<Interval>::const_iterator EndingFrom(uint64_t id) const;

  size_t intervals_max_;
  uint64_t watermark_ = 0;
  std::vector<Interval> intervals_;
};

}  // namespace cohort
