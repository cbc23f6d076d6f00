#pragma once

// Sums up what the steps of one pass report: loss_sum, count and one sum per metric, in the order
// of the program's fetches (coordinator/model/model_programs.h). Steps report from transport
// threads.

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/schedule/remote_value.h"

namespace cohort {

// Thread-safe. Shared: the callbacks of results hold it.
class EpochMeter {
 public:
  // What some steps reported, fetch by fetch.
  struct Sums {
    int64_t steps = 0;
    std::vector<double> values;
    void Add(const Sums& other);
  };
  // Of one step; of none for an error, which the queue has recorded.
  static Sums SumsOf(const absl::StatusOr<FetchedTensors>& fetches);

  void Add(const absl::StatusOr<FetchedTensors>& fetches) { Add(SumsOf(fetches)); }
  void Add(const Sums& sums);

  struct Reading {
    int64_t steps = 0;     // that reported
    double examples = 0;
    double loss = 0;       // mean over examples
    std::vector<double> metrics;  // means over examples
  };
  Reading Read() const;

 private:
  mutable Mutex mutex_;
  Sums sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
