#pragma once

// The elements that pushes of the largest ones have left out, for each slice: state of this worker
// alone, as large as the slices of the variables that are pushed so, and lost with the worker.
// Every piece of a gradient is in one place at a time: in what a push carries, with a push that is
// under way, or here, so none is applied twice, however pushes end and overlap. A new epoch begins
// without any: steps may run again from an earlier cut then, with their whole gradients.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// Thread-safe.
class GradientResiduals {
 public:
  // Hands over what is left of a slice of so many elements; the caller has it until it is added
  // again. Empty: nothing.
  std::vector<float> Take(uint64_t epoch, uint32_t slice_id, size_t elements);

  // Adds what is left; drops it if the epoch is over.
  void Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left);

 private:
  Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::vector<float>> left_ ABSL_GUARDED_BY(mutex_);  // keyed by slice
};

}  // namespace cohort
