#include <cstdio>

#include "common/runtime/cuda/backend/cuda_context.h"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

// In a build without cuDNN, every convolution fails with a code above kDnnErrors, for which
// DnnErrorWords says that cuDNN is missing.
namespace {

int32_t Refuse(CudaContext*, const ConvLaunch&) { return kDnnErrors + 1; }

}  // namespace

void DnnErrorWords(int32_t, char* words, uint64_t bytes) {
  std::snprintf(words, bytes,
                "cuDNN: this module was built without it; build it where cuDNN is, or use cpu "
                "devices");
}

void CloseDnn(CudaContext*) {}

ConvolutionLaunches MakeConvolutionLaunches() { return {Refuse, Refuse, Refuse}; }

}  // namespace cohort
