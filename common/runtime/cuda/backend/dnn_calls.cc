// Convolutions by cuDNN, in float32 without rounding to TF32, and only by algorithms that give the
// same bits in every run.

#include <cudnn.h>

#include <cstdio>
#include <vector>

#include "common/runtime/cuda/backend/algorithm_choice.h"
#include "common/runtime/cuda/backend/cuda_context.h"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// The largest permitted size in bytes of a convolution's workspace. An algorithm that needs more
// memory is not run.
constexpr size_t kWorkspaceMax = size_t{1} << 30;
constexpr int kAlgorithmsMax = 16;

int32_t DnnCode(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? kCudaDone : kDnnErrors + static_cast<int32_t>(status);
}

// cuDNN's descriptors of one convolution. `code` is the error code of the first cuDNN call that
// failed, or kCudaDone.
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
  // Every size fits an int, because kernels/cuda/convolution.cc refuses larger convolutions.
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

// Enters the context's device, and makes cuDNN's handle at the first convolution of the context.
int32_t Prepare(CudaContext* context) {
  int32_t code = Enter(context);
  if (code != kCudaDone || context->dnn != nullptr) return code;
  code = DnnCode(cudnnCreate(&context->dnn));
  return code == kCudaDone ? DnnCode(cudnnSetStream(context->dnn, context->stream)) : code;
}

// Makes the context's workspace larger if its size is less than `bytes`.
int32_t NeedWorkspace(CudaContext* context, size_t bytes) {
  if (bytes <= context->workspace_bytes) return kCudaDone;
  if (context->workspace != nullptr) {
    // Convolutions that were posted before may still use the smaller workspace.
    cudaStreamSynchronize(context->stream);
    cudaFree(context->workspace);
  }
  context->workspace = nullptr;
  context->workspace_bytes = 0;
  const int32_t code = Code(cudaMalloc(&context->workspace, bytes));
  if (code == kCudaDone) context->workspace_bytes = bytes;
  return code;
}

constexpr float kOne = 1;
constexpr float kZero = 0;

// The cuDNN functions of a convolution in one direction: forward, or one of the two gradients. The
// algorithm kSure computes every convolution, with the same bits in every run. Algorithms with
// Fourier transforms are left out: they give each element the error of the largest element of its
// image.
struct Forward {
  using Offer = cudnnConvolutionFwdAlgoPerf_t;
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  static constexpr Algorithm kSure = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  static constexpr Algorithm kLeftOut[] = {CUDNN_CONVOLUTION_FWD_ALGO_FFT,
                                           CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING};

  static cudnnStatus_t Ask(CudaContext* context, const Descriptors& of, int* count, Offer* offers) {
    return cudnnGetConvolutionForwardAlgorithm_v7(context->dnn, of.x, of.w, of.convolution, of.y,
                                                  kAlgorithmsMax, count, offers);
  }
  static cudnnStatus_t Workspace(CudaContext* context, const Descriptors& of, Algorithm algorithm,
                                 size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(context->dnn, of.x, of.w, of.convolution, of.y,
                                                   algorithm, bytes);
  }
  static cudnnStatus_t Run(CudaContext* context, const Descriptors& of, const ConvLaunch& launch,
                           Algorithm algorithm) {
    return cudnnConvolutionForward(context->dnn, &kOne, of.x, launch.first, of.w, launch.second,
                                   of.convolution, algorithm, context->workspace,
                                   context->workspace_bytes, &kZero, of.y, launch.result);
  }
};

struct InputGrad {
  using Offer = cudnnConvolutionBwdDataAlgoPerf_t;
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  static constexpr Algorithm kSure = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  static constexpr Algorithm kLeftOut[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT,
                                           CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING};

  static cudnnStatus_t Ask(CudaContext* context, const Descriptors& of, int* count, Offer* offers) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(context->dnn, of.w, of.y, of.convolution,
                                                       of.x, kAlgorithmsMax, count, offers);
  }
  static cudnnStatus_t Workspace(CudaContext* context, const Descriptors& of, Algorithm algorithm,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(context->dnn, of.w, of.y, of.convolution,
                                                        of.x, algorithm, bytes);
  }
  static cudnnStatus_t Run(CudaContext* context, const Descriptors& of, const ConvLaunch& launch,
                           Algorithm algorithm) {
    return cudnnConvolutionBackwardData(context->dnn, &kOne, of.w, launch.second, of.y,
                                        launch.first, of.convolution, algorithm, context->workspace,
                                        context->workspace_bytes, &kZero, of.x, launch.result);
  }
};

struct WeightGrad {
  using Offer = cudnnConvolutionBwdFilterAlgoPerf_t;
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  static constexpr Algorithm kSure = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  static constexpr Algorithm kLeftOut[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
                                           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING};

  static cudnnStatus_t Ask(CudaContext* context, const Descriptors& of, int* count, Offer* offers) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(context->dnn, of.x, of.y, of.convolution,
                                                         of.w, kAlgorithmsMax, count, offers);
  }
  static cudnnStatus_t Workspace(CudaContext* context, const Descriptors& of, Algorithm algorithm,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(context->dnn, of.x, of.y, of.convolution,
                                                          of.w, algorithm, bytes);
  }
  static cudnnStatus_t Run(CudaContext* context, const Descriptors& of, const ConvLaunch& launch,
                           Algorithm algorithm) {
    return cudnnConvolutionBackwardFilter(
        context->dnn, &kOne, of.x, launch.second, of.y, launch.first, of.convolution, algorithm,
        context->workspace, context->workspace_bytes, &kZero, of.w, launch.result);
  }
};

// Returns whether an algorithm that cuDNN offers may be tried. The offer's mathType only says which
// math cuDNN considered; what runs is the FMA math of the convolution's descriptor. So only an
// offer of FMA math or of the default math may be tried; an offer for tensor cores may not.
template <typename Direction>
bool IsPossible(const typename Direction::Offer& offer) {
  for (const auto left_out : Direction::kLeftOut) {
    if (offer.algo == left_out) return false;
  }
  return offer.status == CUDNN_STATUS_SUCCESS &&
         (offer.mathType == CUDNN_FMA_MATH || offer.mathType == CUDNN_DEFAULT_MATH);
}

// Returns the algorithms to try for a convolution. If cuDNN offers none, the algorithm kSure is
// tried.
template <typename Direction>
std::vector<int32_t> Algorithms(CudaContext* context, const Descriptors& of) {
  typename Direction::Offer offers[kAlgorithmsMax];
  int count = 0;
  if (Direction::Ask(context, of, &count, offers) != CUDNN_STATUS_SUCCESS) count = 0;
  std::vector<OfferedAlgorithm> offered;
  for (int i = 0; i < count; ++i) {
    offered.push_back({offers[i].algo, IsPossible<Direction>(offers[i]),
                       offers[i].determinism == CUDNN_DETERMINISTIC});
  }
  return AlgorithmsToTry(offered, Direction::kSure);
}

// Runs one algorithm of a convolution. The algorithm's workspace depends on the descriptor's math,
// which may differ from the math of cuDNN's offer, so the workspace's size is queried again.
template <typename Direction>
int32_t TryOne(CudaContext* context, const Descriptors& of, const ConvLaunch& launch,
               typename Direction::Algorithm algorithm) {
  size_t bytes = 0;
  int32_t code = DnnCode(Direction::Workspace(context, of, algorithm, &bytes));
  if (code == kCudaDone && bytes > kWorkspaceMax) code = DnnCode(CUDNN_STATUS_NOT_SUPPORTED);
  if (code == kCudaDone) code = NeedWorkspace(context, bytes);
  if (code == kCudaDone) code = DnnCode(Direction::Run(context, of, launch, algorithm));
  // Clears CUDA's last error, which the next kernel launch would otherwise report as its own.
  if (code != kCudaDone) (void)cudaGetLastError();
  return code;
}

// Computes a convolution in one direction by the first algorithm that runs.
template <typename Direction>
int32_t Convolve(CudaContext* context, const ConvLaunch& launch, const Descriptors& of) {
  if (of.code != kCudaDone) return of.code;
  return FirstThatRuns(Algorithms<Direction>(context, of), [&](int32_t algorithm) {
    return TryOne<Direction>(context, of, launch,
                             static_cast<typename Direction::Algorithm>(algorithm));
  });
}

int32_t RunForward(CudaContext* context, const ConvLaunch& launch) {
  int32_t code = Prepare(context);
  if (code != kCudaDone) return code;
  const Descriptors of(launch);
  code = Convolve<Forward>(context, launch, of);
  if (code != kCudaDone || launch.bias == nullptr) return code;
  return DnnCode(
      cudnnAddTensor(context->dnn, &kOne, of.bias, launch.bias, &kOne, of.y, launch.result));
}

template <typename Direction>
int32_t RunGrad(CudaContext* context, const ConvLaunch& launch) {
  const int32_t code = Prepare(context);
  return code == kCudaDone ? Convolve<Direction>(context, launch, Descriptors(launch)) : code;
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

ConvolutionLaunches MakeConvolutionLaunches() {
  return {RunForward, RunGrad<InputGrad>, RunGrad<WeightGrad>};
}

}  // namespace cohort
