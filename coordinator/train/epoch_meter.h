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
  explicit EpochMeter(size_t num_fetches) : sums_(num_fetches, 0.0) {}

  void Add(const absl::StatusOr<FetchedTensors>& fetches);

  struct Reading {
    int64_t steps = 0;     // that reported
    double examples = 0;
    double loss = 0;       // mean over examples
    std::vector<double> metrics;  // means over examples
  };
  Reading Read() const;

 private:
  mutable Mutex mutex_;
  int64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
