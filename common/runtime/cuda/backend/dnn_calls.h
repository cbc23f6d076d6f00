#pragma once

// Calls of cuDNN other than convolutions. In a build without cuDNN, without_dnn.cc defines them,
// and every convolution fails with an error that says so.

#include <cstdint>

#include "common/runtime/cuda/backend/cuda_context.h"

namespace cohort {

void DnnErrorWords(int32_t code, char* words, uint64_t bytes);
// Frees cuDNN's handle in the context, if a convolution has made one.
void CloseDnn(CudaContext* context);

}  // namespace cohort
