#pragma once

// The learning rate of a step, as Keras's LearningRateSchedule classes compute it
// (keras/src/optimizers/schedules/learning_rate_schedule.py), in double. Keras computes the rate
// from the number of earlier updates. With several workers, TensorFlow reads this number when an
// update arrives. Here the position of a closure in the training decides, so that the closure has
// the same rate on every worker and in every run.

#include <cstdint>

#include "coordinator/job/compile_spec.h"

namespace cohort {

// Returns the learning rate of the step that follows `steps_before` earlier steps.
double LearningRateAt(const OptimizerSpec& optimizer, int64_t steps_before);

}  // namespace cohort
