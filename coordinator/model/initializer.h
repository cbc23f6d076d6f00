#pragma once

// Keras's initializers as start-value rules of variables. The Glorot, He and Lecun families are
// variance scaling (keras/initializers/random_initializers.py): scale / fan, drawn uniformly or
// from a truncated normal.

#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// `shape` is that of the variable, rank 1 or 2 ([fan in, fan out]); `job_seed` serves where the
// layer gives none.
proto::Initializer MakeInitializer(const KerasInitializerSpec& spec, const Shape& shape,
                                   uint64_t job_seed);

}  // namespace cohort
