#pragma once

// Sums up what the steps of one pass report: loss_sum, count and one sum per metric, in the order
// of the program's fetches (coordinator/model/model_programs.h). Closures report from transport
// threads.

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/schedule/remote_value.h"

namespace cohort {

// Thread-safe. Shared: the callbacks of results hold it.
class EpochMeter {
 public:
  // Sums of what some steps reported, fetch by fetch.
  struct Sums {
    int64_t steps = 0;
    std::vector<double> values;
    void Add(const Sums& other);
  };
  // Returns the sums of each step of a closure; none for an error, which the queue has recorded.
  static std::vector<Sums> StepsOf(const absl::StatusOr<FetchedTensors>& fetches, size_t steps);

  // Adds steps one after another, as if each were a closure of its own.
  void Add(const std::vector<Sums>& steps);

  struct Reading {
    int64_t steps = 0;  // steps that reported
    double examples = 0;
    double loss = 0;              // mean over examples
    std::vector<double> metrics;  // means over examples
  };
  Reading Read() const;

 private:
  mutable Mutex mutex_;
  Sums sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
