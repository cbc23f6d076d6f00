#include "common/program/ops/schemas.h"

namespace cohort {

void AddRecurrentSchemas(OperatorSchemas&) {}

}  // namespace cohort
