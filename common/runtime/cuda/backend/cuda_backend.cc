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
  if (code == kNoUnifiedMemory) {
    std::snprintf(words, bytes,
                  "CUDA: the processor may not touch this device's memory while it runs "
                  "(concurrentManagedAccess is 0)");
    return;
  }
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

// Copies from GPUs that this one reaches go straight from one to the other; from others, and where
// this fails, through host memory.
void EnablePeers(int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;
  for (int peer = 0; peer < count; ++peer) {
    int reached = 0;
    if (peer == device || cudaDeviceCanAccessPeer(&reached, device, peer) != cudaSuccess) continue;
    if (reached != 0) (void)cudaDeviceEnablePeerAccess(peer, 0);  // or it is so already
  }
  (void)cudaGetLastError();
}

// float32 is computed as such: cuBLAS's default mode rounds no operand to TF32, and without atomics
// (the default) it gives the same bits each time.
int32_t Prepare(CudaContext* context) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  EnablePeers(context->device);
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

// Work that was posted may use the memory. cudaFree is said to wait, but the documentation does not
// say for what.
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

// CUDA knows from the addresses which device each memory belongs to.
int32_t Copy(CudaContext* context, void* to, const void* from, uint64_t bytes) {
  const int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  return Code(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, context->stream));
}

int32_t FillZeros(CudaContext* context, void* device, uint64_t bytes) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Code(cudaMemsetAsync(device, 0, bytes, context->stream)) : code;
}

int32_t Wait(CudaContext* context) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Code(cudaStreamSynchronize(context->stream)) : code;
}

#if CUDART_VERSION >= 13000
cudaMemLocation HomeOn(int device) { return {cudaMemLocationTypeDevice, device}; }
#else
int HomeOn(int device) { return device; }
#endif

// Unified memory has no limit of its own: what does not fit beside the rest would be moved to and
// fro. So it has to fit, and is taken at once, by being written.
int32_t TakeUnified(CudaContext* context, uint64_t bytes, void** memory) {
  uint64_t free = 0;
  uint64_t all = 0;
  int32_t code = MemoryLeft(context, &free, &all);
  if (code == kCudaDone && bytes > free) code = Code(cudaErrorMemoryAllocation);
  if (code == kCudaDone) code = Code(cudaMallocManaged(memory, bytes, cudaMemAttachGlobal));
  if (code != kCudaDone) return code;
  code = Code(
      cudaMemAdvise(*memory, bytes, cudaMemAdviseSetPreferredLocation, HomeOn(context->device)));
  if (code == kCudaDone) code = FillZeros(context, *memory, bytes);
  if (code == kCudaDone) code = Wait(context);
  if (code == kCudaDone) return code;
  cudaFree(*memory);
  *memory = nullptr;
  return code;
}

int32_t AllocateUnified(CudaContext* context, uint64_t bytes, void** memory) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  int concurrent = 0;
  code = Code(
      cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, context->device));
  if (code == kCudaDone && concurrent == 0) return kNoUnifiedMemory;
  if (code == kCudaDone) code = TakeUnified(context, bytes, memory);
  return code == kCudaDone ? code : Forget(code);
}

// For unified memory `device` is the one that was current at the allocation, and so its home. For
// memory unknown to CUDA it is -1, and the type is cudaMemoryTypeUnregistered.
int32_t Reaches(CudaContext* context, const void* memory, bool* yes) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  cudaPointerAttributes attributes = {};
  code = Forget(Code(cudaPointerGetAttributes(&attributes, memory)));
  *yes = code == kCudaDone && attributes.device == context->device &&
         (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
  return code;
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
  table.allocate_unified = AllocateUnified;
  table.reaches = Reaches;
  table.free = Free;
  table.memory_left = MemoryLeft;
  table.copy_to_device = Copy;
  table.copy_to_host = Copy;
  table.copy_on_device = Copy;
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
