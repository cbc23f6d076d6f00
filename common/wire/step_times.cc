#include "common/wire/step_times.h"

namespace cohort {

void AddTimes(const proto::StepTimes& times, proto::StepTimes& sums) {
  sums.set_input_us(sums.input_us() + times.input_us());
  sums.set_pull_us(sums.pull_us() + times.pull_us());
  sums.set_queue_us(sums.queue_us() + times.queue_us());
  sums.set_compute_us(sums.compute_us() + times.compute_us());
  sums.set_push_us(sums.push_us() + times.push_us());
}

}  // namespace cohort
