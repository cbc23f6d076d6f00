#pragma once

// Calls of cuDNN beside its convolutions. `without_dnn.cc` defines them in a build without cuDNN,
// in which every convolution fails, saying so.

#include <cstdint>

#include "common/runtime/cuda/backend/cuda_context.h"

namespace cohort {

void DnnErrorWords(int32_t code, char* words, uint64_t bytes);
// Frees what convolutions left in the context.
void CloseDnn(CudaContext* context);

}  // namespace cohort
