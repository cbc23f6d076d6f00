#pragma once

// The inside of a context of cuda_table.h. Only code that is compiled against CUDA includes this.

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/runtime/cuda/launches/launches.h"

struct cudnnContext;  // cudnn.h is for dnn_calls.cc alone

namespace cohort {

// The libraries' handles belong to the stream.
struct CudaContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cudnnContext* dnn = nullptr;  // made by the first convolution
  void* workspace = nullptr;    // for convolutions; grows
  uint64_t workspace_bytes = 0;
};

// Errors of CUDA, cuBLAS and cuDNN in one number, and one of the module.
inline constexpr int32_t kCudaErrors = 1'000'000;
inline constexpr int32_t kBlasErrors = 2'000'000;
inline constexpr int32_t kDnnErrors = 3'000'000;
inline constexpr int32_t kNoUnifiedMemory = 4'000'000;

inline int32_t Code(cudaError_t error) {
  return error == cudaSuccess ? kCudaDone : kCudaErrors + static_cast<int32_t>(error);
}
inline int32_t Code(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? kCudaDone : kBlasErrors + static_cast<int32_t>(status);
}

// Makes the context's device the thread's present one, as CUDA keeps it per thread.
inline int32_t Enter(const CudaContext* context) { return Code(cudaSetDevice(context->device)); }

// Returns the code of a kernel that was just started.
inline int32_t LastLaunch() { return Code(cudaGetLastError()); }

}  // namespace cohort
