#pragma once

// Keras's optimizer as an update rule for the ps.

#include "coordinator/job/compile_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Parameters sorted by name. The learning rate is not part of the rule: it travels in the push.
proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer);

}  // namespace cohort
