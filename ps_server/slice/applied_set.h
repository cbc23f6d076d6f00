#pragma once

// The closures whose pushes one slice has taken. Closure ids count up and most closures push to
// every slice, in nearly their order, so the set is a few intervals: [1, 812] [814, 814] says that
// 813 is still under way. Every id below the watermark counts as contained: those closures have
// ended everywhere, nobody pushes them again, and no memory is spent on them.
//
// Intervals are disjoint, do not touch, ascend, and lie above the watermark. An interval ends where
// a closure pushed nothing to this slice, so n closures above the watermark make at most
// (n + 1) / 2 intervals: a coordinator that lets fewer than 2 * kAppliedIntervalsMax closures
// wait for the watermark never fills a set.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cohort {

// Intervals of one slice: 512 KiB.
inline constexpr size_t kAppliedIntervalsMax = size_t{1} << 15;

// Thread-compatible.
class AppliedSet {
 public:
  struct Interval {
    uint64_t first = 0;
    uint64_t last = 0;  // inclusive, so that every id has a place
    bool operator==(const Interval& other) const {
      return first == other.first && last == other.last;
    }
  };

  explicit AppliedSet(size_t intervals_max = kAppliedIntervalsMax)
      : intervals_max_(intervals_max) {}

  // Makes the set that a checkpoint describes. Errors: DATA_LOSS if the intervals are not as
  // described above, or are too many.
  static absl::StatusOr<AppliedSet> FromIntervals(uint64_t watermark,
                                                  std::vector<Interval> intervals);

  bool Contains(uint64_t id) const;

  // Adds an id. Returns false if it was contained. Errors: RESOURCE_EXHAUSTED (TRANSIENT) if that
  // takes one more interval than there is room for; the set is unchanged then.
  absl::StatusOr<bool> Insert(uint64_t id);

  // Raises the watermark; a lower one than held changes nothing.
  void RaiseWatermark(uint64_t watermark);

  uint64_t watermark() const { return watermark_; }
  absl::Span<const Interval> intervals() const { return intervals_; }
  size_t size() const { return intervals_.size(); }
  // Returns the bytes of the intervals and the room for more.
  size_t memory_bytes() const { return intervals_.capacity() * sizeof(Interval); }

  // Aborts unless the intervals are as described above.
  void CheckInvariants() const;

 private:
  // Returns the first interval that ends at `id` or later.
  std::vector<Interval>::const_iterator EndingFrom(uint64_t id) const;

  size_t intervals_max_;
  uint64_t watermark_ = 0;
  std::vector<Interval> intervals_;
};

}  // namespace cohort
