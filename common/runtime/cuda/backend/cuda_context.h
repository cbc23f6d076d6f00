#pragma once

// The definition of CudaContext, which is opaque in cuda_table.h. Only code that is compiled
// against CUDA includes this header.

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/runtime/cuda/launches/launches.h"

struct cudnnContext;  // a forward declaration, because only dnn_calls.cc includes cudnn.h

namespace cohort {

// Two limits of reductions on a device (for_each.cuh): the largest number of parts into which few,
// long reductions are split, which keeps a large GPU busy; and the size in bytes of the largest
// value type that is reduced.
inline constexpr int64_t kReduceBlocks = 1024;
inline constexpr uint64_t kReduceValueBytesMax = 2 * sizeof(double);

// A stream of one device, and the handles of the libraries that post to this stream.
struct CudaContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cudnnContext* dnn = nullptr;  // the handle of cuDNN; null until the first convolution
  void* workspace = nullptr;    // workspace of convolutions, which grows and never shrinks
  uint64_t workspace_bytes = 0;
  void* partials = nullptr;  // memory for kReduceBlocks partial results of a reduction
};

// Offsets of the error codes of CUDA, cuBLAS and cuDNN, by which the codes of the three libraries
// differ, and one error code of this module (kNoUnifiedMemory).
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

// Makes the context's device the current device of this thread; CUDA keeps the current device per
// thread.
inline int32_t Enter(const CudaContext* context) { return Code(cudaSetDevice(context->device)); }

// Returns the error code of the kernel launch that this thread has just made.
inline int32_t LastLaunch() { return Code(cudaGetLastError()); }

// The functions that call cuDNN, other than the launches of convolutions. In a build without cuDNN,
// without_dnn.cc defines these functions, and every convolution fails with an error that says so.
void DnnErrorWords(int32_t code, char* words, uint64_t bytes);
// Frees cuDNN's handle in the context, if a convolution has made one.
void CloseDnn(CudaContext* context);

}  // namespace cohort
