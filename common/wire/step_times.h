#pragma once

// The sum of the times that training steps took, for each phase of a step.

#include "proto/worker.pb.h"

namespace cohort {

void AddTimes(const proto::StepTimes& times, proto::StepTimes& sums);

}  // namespace cohort
