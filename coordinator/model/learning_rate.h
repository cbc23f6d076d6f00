#pragma once

// The learning rate of a step, as Keras's LearningRateSchedule classes give it
// (keras/src/optimizers/schedules/learning_rate_schedule.py), in double. Keras asks with the number
// of updates that came before. With several workers TensorFlow reads that number when an update
// arrives; here a closure's place in the training decides, so that it has the same rate whichever
// worker runs it, and when it runs again.

#include <cstdint>

#include "coordinator/job/compile_spec.h"

namespace cohort {

// Returns the rate; `steps_before` is 0 for the first step.
double LearningRateAt(const OptimizerSpec& optimizer, int64_t steps_before);

}  // namespace cohort
