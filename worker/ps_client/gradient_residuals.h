#pragma once

// The gradient elements that top-k pushes have left out, for each slice. The residuals exist in
// this worker only, are as large as the slices that are pushed so, and are lost with the worker.
// Every gradient element is in one place at a time: in a push's message, with a push under way, or
// in the residuals. So no element is applied twice, however pushes end and overlap. A new epoch
// begins without residuals, because steps may then run again from an earlier cut, with their whole
// gradients.

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// The residuals of all slices. Thread-safe.
class GradientResiduals {
 public:
  // Removes and returns the residual of a slice that has `elements` elements, or returns an empty
  // vector if there is none. The caller owns the residual until it adds the new one with Add().
  std::vector<float> Take(uint64_t epoch, uint32_t slice_id, size_t elements);

  // Adds `left` to the residual of the slice, or drops it if `epoch` is over.
  void Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left);

 private:
  Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // Residuals, keyed by slice.
  std::map<uint32_t, std::vector<float>> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
