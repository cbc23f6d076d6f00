#pragma once

// Sums up what the steps of one pass over the data report: loss_sum, count and the state of each
// metric, in the order of the program's fetches (coordinator/model/model_programs.h). A watch on
// the losses logs once that a training has gone wrong. Closures report on transport threads.

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/schedule/remote_value.h"

namespace cohort {

// The sums of one pass over the data. Thread-safe. Shared with the callbacks of the closures'
// results.
class EpochMeter {
 public:
  // Sums over some steps of each number that the steps fetch, in the order of the fetches.
  struct Sums {
    int64_t steps = 0;
    std::vector<double> values;
    void Add(const Sums& other);
  };
  // Returns the sums of each step of a closure, which has run `steps` steps. Returns no sums for a
  // failed closure, whose error the closure queue has recorded.
  static std::vector<Sums> StepsOf(const absl::StatusOr<FetchedTensors>& fetches, size_t steps);

  // Adds the sums of each of `steps`, as if each step were a closure of its own.
  void Add(const std::vector<Sums>& steps);

  struct Reading {
    int64_t steps = 0;  // number of steps that have reported so far
    double examples = 0;
    double loss = 0;             // mean loss over the examples
    std::vector<double> states;  // states of the metrics, concatenated
  };
  static Reading ReadingOf(const Sums& sums);
  Reading Read() const { return ReadingOf(sums()); }
  Sums sums() const;

 private:
  mutable Mutex mutex_;
  Sums sums_ ABSL_GUARDED_BY(mutex_);
};

// A watch on the losses of a training. Thread-safe. Shared with the callbacks of the closures'
// results.
class LossWatch {
 public:
  // Logs the first loss that is not finite, as the event `loss_not_finite`; logs only once.
  // `first_step` is the number of the update to which the first of `steps` belongs.
  void See(int64_t first_step, const std::vector<EpochMeter::Sums>& steps);

 private:
  std::atomic<bool> said_{false};
};

}  // namespace cohort
