#pragma once

// Logs once that a training has gone wrong: at the first step whose loss is not a finite number.

#include <atomic>
#include <cstdint>
#include <vector>

#include "coordinator/train/epoch_meter.h"

namespace cohort {

// Thread-safe. Shared: the callbacks of results hold the watch.
class LossWatch {
 public:
  // Looks at the losses of `steps` and logs the first loss that is not finite, as
  // `loss_not_finite`. `first_step` is the number of the update to which the first of `steps`
  // belongs.
  void See(int64_t first_step, const std::vector<EpochMeter::Sums>& steps);

 private:
  std::atomic<bool> said_{false};
};

}  // namespace cohort
