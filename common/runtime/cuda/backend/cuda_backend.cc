// The entry of the module libcohort_cuda.so. With the kernels' .cu files, it is the only code that
// is compiled against CUDA. It runs only where a GPU is, so it holds no logic that could be
// elsewhere and be tested there.

#include <algorithm>
#include <cstdio>
#include <new>

#include "common/runtime/cuda/backend/cuda_context.h"
#include "common/runtime/cuda/cuda_table.h"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

void ErrorWords(void*, int32_t code, char* words, uint64_t bytes) {
  if (code == kNoUnifiedMemory) {
    std::snprintf(words, bytes,
                  "CUDA: the processor may not touch this device's memory while it runs "
                  "(concurrentManagedAccess is 0)");
    return;
  }
  // Each library's error codes are moved into a range of their own, so a code also tells which
  // library reported it.
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

// The largest number of matrix products in one call of cuBLAS, which maps the batch to an axis of
// CUDA's grid with this limit.
constexpr int64_t kBatchMax = 65535;

// Multiplies matrices by cuBLAS, whose matrices are column-major. To cuBLAS a row-major matrix
// looks like its own transpose, so C = A * B is computed as C' = B' * A'.
int32_t Gemm(CudaContext* context, const GemmLaunch& launch) {
  int32_t code = Enter(context);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // A batch of more than kBatchMax products takes several calls of cuBLAS.
  for (int64_t first = 0; code == kCudaDone && first < launch.batch; first += kBatchMax) {
    code = Code(cublasSgemmStridedBatched_64(
        context->blas, op(launch.transpose_b), op(launch.transpose_a), launch.n, launch.m, launch.k,
        &launch.alpha, launch.b + first * launch.stride_b, launch.transpose_b ? launch.k : launch.n,
        launch.stride_b, launch.a + first * launch.stride_a,
        launch.transpose_a ? launch.m : launch.k, launch.stride_a, &launch.beta,
        launch.c + first * launch.stride_c, launch.n, launch.stride_c,
        std::min(launch.batch - first, kBatchMax)));
  }
  return code;
}

int32_t DeviceCount(void*, int32_t* count) {
  *count = 0;
  return Code(cudaGetDeviceCount(count));
}

// Clears CUDA's last error and returns `code`. Without this, the thread's next kernel launch would
// report the old error as its own.
int32_t Forget(int32_t code) {
  (void)cudaGetLastError();
  return code;
}

void Close(CudaContext* context) {
  if (Enter(context) == kCudaDone) {
    CloseDnn(context);
    if (context->workspace != nullptr) cudaFree(context->workspace);
    if (context->partials != nullptr) cudaFree(context->partials);
    if (context->blas != nullptr) cublasDestroy(context->blas);
    if (context->stream != nullptr) cudaStreamDestroy(context->stream);
  }
  delete context;
}

// Lets this device reach the memory of other GPUs where the hardware allows it, so that copies go
// directly from GPU to GPU. Where the hardware does not allow it, a copy goes through host memory.
void EnablePeers(int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;
  for (int peer = 0; peer < count; ++peer) {
    int reached = 0;
    if (peer == device || cudaDeviceCanAccessPeer(&reached, device, peer) != cudaSuccess) continue;
    // cudaDeviceEnablePeerAccess fails without harm if the access is already enabled.
    if (reached != 0) (void)cudaDeviceEnablePeerAccess(peer, 0);
  }
  (void)cudaGetLastError();
}

// Makes the context's stream, its cuBLAS handle, and the memory for partial results of reductions.
// cuBLAS's default math mode rounds no operand to TF32, and without atomics (also the default)
// cuBLAS gives the same bits in every run.
int32_t Prepare(CudaContext* context) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  EnablePeers(context->device);
  code = Code(cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking));
  if (code == kCudaDone) code = Code(cublasCreate(&context->blas));
  if (code == kCudaDone) code = Code(cublasSetStream(context->blas, context->stream));
  if (code == kCudaDone) code = Code(cublasSetMathMode(context->blas, CUBLAS_DEFAULT_MATH));
  if (code == kCudaDone) {
    code = Code(cudaMalloc(&context->partials, kReduceBlocks * kReduceValueBytesMax));
  }
  return code;
}

int32_t Allocate(CudaContext* context, uint64_t bytes, void** memory) {
  const int32_t code = Enter(context);
  return code == kCudaDone ? Forget(Code(cudaMalloc(memory, bytes))) : code;
}

// Waits until all posted work has ended, since the work may use the memory, and frees the memory.
// CUDA's documentation does not say what cudaFree itself waits for.
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

// Copies between any memories: CUDA knows from the addresses to which device each memory belongs.
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

// Allocates unified memory. A request for more than the device's free memory fails: CUDA itself
// would grant it and then move pages between device and host all the time. Writing zeros to the
// memory makes CUDA allocate all its pages at once.
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

// Sets `yes` to whether this device's kernels may use the memory in place. For unified memory,
// attributes.device is the device that was current at the allocation, which is the device on which
// the memory resides. For memory that CUDA does not know, attributes.device is -1 and the type is
// cudaMemoryTypeUnregistered.
int32_t Reaches(CudaContext* context, const void* memory, bool* yes) {
  int32_t code = Enter(context);
  if (code != kCudaDone) return code;
  cudaPointerAttributes attributes = {};
  code = Forget(Code(cudaPointerGetAttributes(&attributes, memory)));
  *yes = code == kCudaDone && attributes.device == context->device &&
         (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
  return code;
}

// Runs one kernel as a test, because only the launch of a kernel reveals that the module has no
// kernels for the device.
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
  // If the context cannot be used, it is closed again and the thread's last CUDA error is cleared.
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
  return table;
}

}  // namespace

GemmLaunches MakeGemmLaunches() { return {Gemm}; }

}  // namespace cohort

extern "C" __attribute__((visibility("default"))) const cohort::CudaTable* cohort_cuda_table() {
  static const cohort::CudaTable table = cohort::MakeTable();
  return &table;
}
