// Convolutions by cuDNN, in float32 (no TF32) and by algorithms that give the same bits each time.

#include "common/runtime/cuda/backend/dnn_calls.h"

#include <cudnn.h>

#include <cstdio>

#include "common/runtime/kernels/cuda/convolution_launches.h"

namespace cohort {

namespace {

// Algorithms that want more are left out.
constexpr size_t kWorkspaceMax = size_t{1} << 30;
constexpr int kAlgorithmsMax = 16;

int32_t DnnCode(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? kCudaDone : kDnnErrors + static_cast<int32_t>(status);
}

// What cuDNN knows of one convolution. The first that fails is kept in `code`.
class Descriptors {
 public:
  explicit Descriptors(const ConvLaunch& launch) {
    const auto channels = static_cast<int>(launch.groups * launch.outputs);
    Keep(cudnnCreateTensorDescriptor(&x));
    Keep(cudnnCreateTensorDescriptor(&y));
    Keep(cudnnCreateTensorDescriptor(&bias));
    Keep(cudnnCreateFilterDescriptor(&w));
    Keep(cudnnCreateConvolutionDescriptor(&convolution));
    const ConvAxis& r = launch.rows;
    const ConvAxis& c = launch.columns;
    SetTensor(x, launch.batch, launch.groups * launch.inputs, r.input, c.input);
    SetTensor(y, launch.batch, channels, r.output, c.output);
    SetTensor(bias, 1, channels, 1, 1);
    if (code == kCudaDone) {
      Keep(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, channels,
                                      Int(launch.inputs), Int(r.kernel), Int(c.kernel)));
    }
    if (code != kCudaDone) return;
    Keep(cudnnSetConvolution2dDescriptor(convolution, Int(r.pad), Int(c.pad), Int(r.stride),
                                         Int(c.stride), Int(r.dilation), Int(c.dilation),
                                         CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    if (code == kCudaDone) Keep(cudnnSetConvolutionGroupCount(convolution, Int(launch.groups)));
    if (code == kCudaDone) Keep(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  }
  ~Descriptors() {
    if (convolution != nullptr) cudnnDestroyConvolutionDescriptor(convolution);
    if (w != nullptr) cudnnDestroyFilterDescriptor(w);
    for (cudnnTensorDescriptor_t each : {x, y, bias}) {
      if (each != nullptr) cudnnDestroyTensorDescriptor(each);
    }
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  int32_t code = kCudaDone;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;

 private:
  // The kernel's host side refuses what does not fit.
  static int Int(int64_t value) { return static_cast<int>(value); }
  void Keep(cudnnStatus_t status) {
    if (code == kCudaDone) code = DnnCode(status);
  }
  void SetTensor(cudnnTensorDescriptor_t tensor, int64_t batch, int64_t channels, int64_t rows,
                 int64_t columns) {
    if (code != kCudaDone) return;
    Keep(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(batch),
                                    Int(channels), Int(rows), Int(columns)));
  }
};

int32_t Prepare(CudaContext* context) {
  int32_t code = Enter(context);
  if (code != kCudaDone || context->dnn != nullptr) return code;
  code = DnnCode(cudnnCreate(&context->dnn));
  return code == kCudaDone ? DnnCode(cudnnSetStream(context->dnn, context->stream)) : code;
}

// The memory grows; cudaFree waits for what still uses the smaller one.
int32_t NeedWorkspace(CudaContext* context, size_t bytes) {
  if (bytes <= context->workspace_bytes) return kCudaDone;
  if (context->workspace != nullptr) cudaFree(context->workspace);
  context->workspace = nullptr;
  context->workspace_bytes = 0;
  const int32_t code = Code(cudaMalloc(&context->workspace, bytes));
  if (code == kCudaDone) {
    context->workspace_bytes = bytes;
  } else {
    (void)cudaGetLastError();  // or the next kernel would seem to have failed
  }
  return code;
}

// The first, which cuDNN holds for the fastest, of those that may be used.
template <typename Choice>
int32_t Choose(CudaContext* context, const Choice* choices, int count, Choice& chosen) {
  for (int i = 0; i < count; ++i) {
    if (choices[i].status != CUDNN_STATUS_SUCCESS || choices[i].memory > kWorkspaceMax ||
        choices[i].determinism != CUDNN_DETERMINISTIC || choices[i].mathType != CUDNN_FMA_MATH) {
      continue;
    }
    chosen = choices[i];
    return NeedWorkspace(context, chosen.memory);
  }
  return DnnCode(CUDNN_STATUS_NOT_SUPPORTED);
}

constexpr float kOne = 1;
constexpr float kZero = 0;

int32_t Forward(CudaContext* context, const ConvLaunch& launch) {
  int32_t code = Prepare(context);
  if (code != kCudaDone) return code;
  const Descriptors of(launch);
  if (of.code != kCudaDone) return of.code;
  cudnnConvolutionFwdAlgoPerf_t choices[kAlgorithmsMax];
  int count = 0;
  code = DnnCode(cudnnGetConvolutionForwardAlgorithm_v7(context->dnn, of.x, of.w, of.convolution,
                                                        of.y, kAlgorithmsMax, &count, choices));
  cudnnConvolutionFwdAlgoPerf_t chosen;
  if (code == kCudaDone) code = Choose(context, choices, count, chosen);
  if (code != kCudaDone) return code;
  code = DnnCode(cudnnConvolutionForward(
      context->dnn, &kOne, of.x, launch.first, of.w, launch.second, of.convolution, chosen.algo,
      context->workspace, context->workspace_bytes, &kZero, of.y, launch.result));
  if (code != kCudaDone || launch.bias == nullptr) return code;
  return DnnCode(
      cudnnAddTensor(context->dnn, &kOne, of.bias, launch.bias, &kOne, of.y, launch.result));
}

int32_t InputGrad(CudaContext* context, const ConvLaunch& launch) {
  int32_t code = Prepare(context);
  if (code != kCudaDone) return code;
  const Descriptors of(launch);
  if (of.code != kCudaDone) return of.code;
  cudnnConvolutionBwdDataAlgoPerf_t choices[kAlgorithmsMax];
  int count = 0;
  code = DnnCode(cudnnGetConvolutionBackwardDataAlgorithm_v7(
      context->dnn, of.w, of.y, of.convolution, of.x, kAlgorithmsMax, &count, choices));
  cudnnConvolutionBwdDataAlgoPerf_t chosen;
  if (code == kCudaDone) code = Choose(context, choices, count, chosen);
  if (code != kCudaDone) return code;
  return DnnCode(cudnnConvolutionBackwardData(
      context->dnn, &kOne, of.w, launch.second, of.y, launch.first, of.convolution, chosen.algo,
      context->workspace, context->workspace_bytes, &kZero, of.x, launch.result));
}

int32_t WeightGrad(CudaContext* context, const ConvLaunch& launch) {
  int32_t code = Prepare(context);
  if (code != kCudaDone) return code;
  const Descriptors of(launch);
  if (of.code != kCudaDone) return of.code;
  cudnnConvolutionBwdFilterAlgoPerf_t choices[kAlgorithmsMax];
  int count = 0;
  code = DnnCode(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      context->dnn, of.x, of.y, of.convolution, of.w, kAlgorithmsMax, &count, choices));
  cudnnConvolutionBwdFilterAlgoPerf_t chosen;
  if (code == kCudaDone) code = Choose(context, choices, count, chosen);
  if (code != kCudaDone) return code;
  return DnnCode(cudnnConvolutionBackwardFilter(
      context->dnn, &kOne, of.x, launch.second, of.y, launch.first, of.convolution, chosen.algo,
      context->workspace, context->workspace_bytes, &kZero, of.w, launch.result));
}

}  // namespace

void DnnErrorWords(int32_t code, char* words, uint64_t bytes) {
  const auto status = static_cast<cudnnStatus_t>(code - kDnnErrors);
  std::snprintf(words, bytes, "cuDNN: %s (%d)", cudnnGetErrorString(status),
                static_cast<int>(status));
}

void CloseDnn(CudaContext* context) {
  if (context->dnn != nullptr) cudnnDestroy(context->dnn);
  context->dnn = nullptr;
}

ConvLibrary MakeConvLibrary() { return {Forward, InputGrad, WeightGrad}; }

}  // namespace cohort
