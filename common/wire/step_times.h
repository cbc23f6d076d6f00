#pragma once

// The times of several steps, added up by phase.

#include "proto/worker.pb.h"

namespace cohort {

void AddTimes(const proto::StepTimes& times, proto::StepTimes& sums);

}  // namespace cohort
