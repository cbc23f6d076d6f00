#pragma once

// Keras's initializers as start-value rules of variables. The Glorot, He and Lecun families are
// variance scaling (keras/initializers/random_initializers.py): scale / fan, drawn uniformly or
// from a truncated normal.

#include <string>

#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// `shape` is that of the variable; `job_seed` serves where the layer gives none.
proto::Initializer MakeInitializer(const KerasInitializerSpec& spec, const Shape& shape,
                                   uint64_t job_seed);

// A float32 variable that begins so, and is trained.
VariableSpec MakeVariable(const std::string& name, const Shape& shape,
                          const KerasInitializerSpec& initializer, uint64_t job_seed);

}  // namespace cohort
