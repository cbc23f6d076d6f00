#include "common/program/ops/schemas.h"

namespace cohort {

OperatorSchemas AllSchemas() {
  OperatorSchemas schemas;
  AddElementwiseSchemas(schemas);
  AddReduceSchemas(schemas);
  AddMovementSchemas(schemas);
  AddProductSchemas(schemas);
  AddImageSchemas(schemas);
  AddNormalizationSchemas(schemas);
  AddRecurrentSchemas(schemas);
  AddLossSchemas(schemas);
  AddReplicaSchemas(schemas);
  return schemas;
}

}  // namespace cohort
