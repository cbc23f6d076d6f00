#pragma once

// Counters of a home's calls: numbers of calls and slices, bytes, and the staleness of pushes. The
// staleness of a push to a slice is the number of other pushes that were applied to the slice after
// the pushing worker had pulled the slice and before its push was applied.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"
#include "proto/ps.pb.h"

namespace cohort {

// The counters of pull and push calls and of the slices that they read or changed. Thread-safe.
class PsStats {
 public:
  // The number of bytes that one call received or sent for one slice.
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
    // The staleness of the push, once for each slice to which it was applied.
    std::vector<uint64_t> staleness;
    uint64_t duplicates = 0;
    uint64_t dropped = 0;
    uint64_t bytes = 0;
    std::vector<SliceBytes> traffic;
  };
  void AddPush(const Push& push);

  void AddRefusedPush();

  // Writes the counters into the response. Fields that the service measures when it answers, such
  // as resident_bytes, are left unchanged.
  void FillIn(proto::PsStatsResponse& response) const;

 private:
  void AddStalenessLocked(uint64_t staleness) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddTrafficLocked(const std::vector<SliceBytes>& traffic)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  proto::PsStatsResponse counters_ ABSL_GUARDED_BY(mutex_);
  // Bytes that all calls received or sent, by slice id.
  std::map<uint32_t, uint64_t> traffic_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
