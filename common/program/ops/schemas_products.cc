#include "common/program/ops/schemas.h"

namespace cohort {

void AddProductSchemas(OperatorSchemas&) {}

}  // namespace cohort
