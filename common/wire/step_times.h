#pragma once

// Sums of the times that several training steps took, by phase of a step.

#include "proto/worker.pb.h"

namespace cohort {

void AddTimes(const proto::StepTimes& times, proto::StepTimes& sums);

}  // namespace cohort
