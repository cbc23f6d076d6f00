#pragma once

// The schemas of the operators of the cohort domain (common/program/cohort_ops.h says what the
// operators compute), one function and one file for each family.

#include <vector>

#include "onnx/defs/schema.h"

namespace cohort {

using OperatorSchemas = std::vector<onnx::OpSchema>;

// Appends the schemas of elementwise and clipping operators.
void AddElementwiseSchemas(OperatorSchemas& schemas);
// Appends the schemas of reductions.
void AddReduceSchemas(OperatorSchemas& schemas);
// Appends the schemas of operators that move, copy or select elements.
void AddMovementSchemas(OperatorSchemas& schemas);
// Appends the schemas of products of tensors.
void AddProductSchemas(OperatorSchemas& schemas);
// Appends the schemas of convolution, pooling and resizing.
void AddImageSchemas(OperatorSchemas& schemas);
// Appends the schemas of normalization.
void AddNormalizationSchemas(OperatorSchemas& schemas);
// Appends the schemas of recurrent layers.
void AddRecurrentSchemas(OperatorSchemas& schemas);
// Appends the schemas of losses, metrics and Dropout.
void AddLossSchemas(OperatorSchemas& schemas);
// Appends the schemas of operators at which the replicas of a step meet.
void AddReplicaSchemas(OperatorSchemas& schemas);

// Returns the schemas of all families, with type and shape inference, in a fixed order.
OperatorSchemas AllSchemas();

}  // namespace cohort
