#pragma once

// Where the time of several steps went, together.

#include "proto/worker.pb.h"

namespace cohort {

void AddTimes(const proto::StepTimes& times, proto::StepTimes& sums);

}  // namespace cohort
