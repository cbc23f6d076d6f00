// The module libcohort_cuda.so: with the kernels' .cu files, the only code that is compiled against
// CUDA. It holds no logic that could be elsewhere, because it runs only where a GPU is.

#include <cstdio>
#include <new>

#include "common/runtime/cuda/backend/blas_calls.h"
#include "common/runtime/cuda/backend/cuda_context.h"
#include "common/runtime/cuda/backend/dnn_calls.h"
#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

namespace {

void ErrorWords(void*, int32_t code, char* words, uint64_t bytes) {
  if (code >= kDnnErrors) return DnnErrorWords(code, words, bytes);
  if (code >= kBlasErrors) {
    const auto status = static_cast<cublasStatus_t>(code - kBlasErrors);
    std::snprintf(words, bytes, "cuBLAS: %s (%d)", cublasGetStatusString(status),
                  static_cast<int>(status));
    return;
  }
  const auto error = static_cast<cudaError_t>(code - kCudaErrors);
  std::snprintf(words, bytes, "CUDA: %s (%d)", cudaGetErrorString(error), static_cast<int>(error));
}

int32_t DeviceCount(void*, int32_t* count) {
  *count = 0;
  return Code(cudaGetDeviceCount(count));
}

// A failed call leaves its error for the thread's next one, which would take it for its own.
int32_t Forget(int32_t code) {
  (void)cudaGetLastError();
  return code;
}

void Close(CudaContext* context) {
  if (Enter(context) == kCudaDone) {
    CloseDnn(context);
    if (context->workspace != nullptr) cudaFree(context->workspace);
    if (context->blas != nullptr) cublasDestroy(context->blas);
    if (context->stream != nullptr) cudaStreamDestroy(context->stream);
  }
  delete context;
}

// float32 is computed as such: cuBLAS's default mode rounds no operand to TF32, and without atomics
// (the default) it gives the same bits each time.
int32_t Prepare(CudaContext* context) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  code = Code(cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking));
  if (code == kCudaDone) code = Code(cublasCreate(&context->blas));
  if (code == kCudaDone) code = Code(cublasSetStream(context->blas, context->stream));
  if (code == kCudaDone) code = Code(cublasSetMathMode(context->blas, CUBLAS_DEFAULT_MATH));
  return code;
}

int32_t Allocate(CudaContext* context, uint64_t bytes, void** memory) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Forget(Code(cudaMalloc(memory, bytes))) : code;
}

// What was posted may use the memory. cudaFree is said to wait, but not of what.
void Free(CudaContext* context, void* memory) {
  if (Enter(context) != kCudaDone) return;
  cudaStreamSynchronize(context->stream);
  cudaFree(memory);
}

int32_t MemoryLeft(CudaContext* context, uint64_t* free, uint64_t* all) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  size_t is_free = 0;
  size_t total = 0;
  code = Code(cudaMemGetInfo(&is_free, &total));
  *free = is_free;
  *all = total;
  return code;
}

int32_t Copy(CudaContext* context, void* to, const void* from, uint64_t bytes,
             cudaMemcpyKind kind) {
  const int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  return Code(cudaMemcpyAsync(to, from, bytes, kind, context->stream));
}

int32_t CopyToDevice(CudaContext* context, void* device, const void* host, uint64_t bytes) {
  return Copy(context, device, host, bytes, cudaMemcpyHostToDevice);
}

int32_t CopyToHost(CudaContext* context, void* host, const void* device, uint64_t bytes) {
  return Copy(context, host, device, bytes, cudaMemcpyDeviceToHost);
}

int32_t CopyOnDevice(CudaContext* context, void* to, const void* from, uint64_t bytes) {
  return Copy(context, to, from, bytes, cudaMemcpyDeviceToDevice);
}

int32_t FillZeros(CudaContext* context, void* device, uint64_t bytes) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Code(cudaMemsetAsync(device, 0, bytes, context->stream)) : code;
}

int32_t Wait(CudaContext* context) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Code(cudaStreamSynchronize(context->stream)) : code;
}

// Runs one kernel: of a device for which none was compiled, CUDA tells no sooner.
int32_t Try(CudaContext* context) {
  void* memory = nullptr;
  int32_t code = Allocate(context, sizeof(float), &memory);
  if (code != kCudaDone) return code;
  auto* const value = static_cast<float*>(memory);
  code = FillZeros(context, memory, sizeof(float));
  if (code == kCudaDone) {
    code = MakeElementwiseLaunches().unary(context, {UnaryLaunch::Op::kNeg, 1, value, value});
  }
  if (code == kCudaDone) code = Wait(context);
  Free(context, memory);
  return code;
}

int32_t Open(void*, int32_t device, CudaContext** context) {
  auto* const opened = new (std::nothrow) CudaContext{device};
  if (opened == nullptr) return Code(cudaErrorMemoryAllocation);
  int32_t code = Prepare(opened);
  if (code == kCudaDone) code = Try(opened);
  if (code != kCudaDone) {
    Close(opened);
    return Forget(code);
  }
  *context = opened;
  return kCudaDone;
}

CudaTable MakeTable() {
  CudaTable table;
  table.error_words = ErrorWords;
  table.device_count = DeviceCount;
  table.open = Open;
  table.close = Close;
  table.allocate = Allocate;
  table.free = Free;
  table.memory_left = MemoryLeft;
  table.copy_to_device = CopyToDevice;
  table.copy_to_host = CopyToHost;
  table.copy_on_device = CopyOnDevice;
  table.fill_zeros = FillZeros;
  table.wait = Wait;
  table.launches = MakeCudaLaunches();
  table.launches.gemm = MakeGemmLibrary();
  table.launches.convolution = MakeConvLibrary();
  return table;
}

}  // namespace
}  // namespace cohort

extern "C" __attribute__((visibility("default"))) const cohort::CudaTable* cohort_cuda_table() {
  static const cohort::CudaTable table = cohort::MakeTable();
  return &table;
}
