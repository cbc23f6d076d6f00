#pragma once

// Counters of a ps: calls, slices, bytes and staleness. A push's staleness on a slice is the number
// of other pushes that were applied between its pull and its own apply.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"
#include "proto/ps.pb.h"

namespace cohort {

// Thread-safe.
class PsStats {
 public:
  // Bytes that moved for one slice.
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
    std::vector<uint64_t> staleness;  // one per applied slice
    uint64_t duplicates = 0;
    uint64_t dropped = 0;
    uint64_t bytes = 0;
    std::vector<SliceBytes> traffic;
  };
  void AddPush(const Push& push);

  void AddRefusedPush();

  // Fills in the counters of the response; the gauges are left alone.
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
