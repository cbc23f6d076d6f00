#include "common/program/gradient_rules.h"

namespace cohort {

void AddRecurrentGradients(GradientRules&) {}

}  // namespace cohort
