#pragma once

// Counters of a home: calls, slices, bytes and staleness. The staleness of a push on a slice is the
// number of other pushes that were applied between the push's pull and its own application.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"
#include "proto/ps.pb.h"

namespace cohort {

// The counters of the calls that pulled and pushed slices. Thread-safe.
class PsStats {
 public:
  // The bytes that a call moved for one slice.
  struct SliceBytes {
    uint32_t slice_id = 0;
    uint64_t bytes = 0;
  };
  struct Pull {
    uint64_t slices = 0;
    uint64_t bytes = 0;
    std::vector<SliceBytes> traffic;
  };
  void AddPull(const Pull& pull);

  struct Push {
    std::vector<uint64_t> staleness;  // one element for each applied slice
    uint64_t duplicates = 0;
    uint64_t dropped = 0;
    uint64_t bytes = 0;
    std::vector<SliceBytes> traffic;
  };
  void AddPush(const Push& push);

  void AddRefusedPush();

  // Fills in the counters of the response; gauges such as resident_bytes are left alone.
  void FillIn(proto::PsStatsResponse& response) const;

 private:
  void AddStalenessLocked(uint64_t staleness) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddTrafficLocked(const std::vector<SliceBytes>& traffic)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  proto::PsStatsResponse counters_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, uint64_t> traffic_ ABSL_GUARDED_BY(mutex_);  // keyed by slice id
};

}  // namespace cohort
