#pragma once

// Turns Keras's initializers into start-value rules of variables. The Glorot, He and Lecun families
// are variance scaling (keras/initializers/random_initializers.py): scale / fan, drawn uniformly or
// from a truncated normal.

#include <string>

#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Makes an initializer for a variable of this shape. `job_seed` is used if the layer has no seed.
proto::Initializer MakeInitializer(const KerasInitializerSpec& spec, const Shape& shape,
                                   uint64_t job_seed);

// Makes a trainable float32 variable with this initializer.
VariableSpec MakeVariable(const std::string& name, const Shape& shape,
                          const KerasInitializerSpec& initializer, uint64_t job_seed);

}  // namespace cohort
