#include "coordinator/train/loss_watch.h"

#include <cmath>

#include "common/base/log.h"

namespace cohort {

void LossWatch::See(int64_t first_step, const std::vector<EpochMeter::Sums>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<double>& values = steps[i].values;
    // `said_` lets only one of the transport threads log, and only once.
    if (values.empty() || std::isfinite(values[0]) || said_.exchange(true)) continue;
    Log(LogLevel::kWarning, "loss_not_finite",
        {{"step", first_step + static_cast<int64_t>(i)},
         {"loss", values[0]},
         {"remedy", "a smaller learning rate, or gradient clipping (clipnorm)"}});
  }
}

}  // namespace cohort
