#pragma once

// The launches: all that a kernel of an operator can start on a device. A launch is declared in
// three places, always in the same way: a struct with its arguments (tensor_launches.h,
// image_launches.h; updates have theirs in update/rules/updates.h), a Launcher in the struct of its
// family, and the function that makes the family, which a file of backend/ defines. A kernel starts
// a launch by CudaStream::Launch.
//
// This header is plain C++, because nvcc compiles it, too.

#include <cstdint>

#include "common/runtime/cuda/launches/image_launches.h"
#include "common/runtime/cuda/launches/tensor_launches.h"
#include "common/runtime/update/rules/updates.h"

namespace cohort {

struct CudaContext;

inline constexpr int32_t kCudaDone = 0;

// A function that starts the launch that `arguments` describe. Returns an error code of
// cuda_table.h; the started work runs later.
template <typename Arguments>
using Launcher = int32_t (*)(CudaContext* context, const Arguments& arguments);

struct BatchNormLaunches {
  Launcher<BatchStatisticsLaunch> batch_statistics;
  Launcher<GivenStatisticsLaunch> given_statistics;
  Launcher<RunningLaunch> running;
  Launcher<NormalizeLaunch> normalize;
  Launcher<BatchNormSumsLaunch> sums;
  Launcher<BatchNormGradLaunch> gradient;
};

struct DropoutLaunches {
  Launcher<DropoutLaunch> dropout;
  Launcher<MaskedScaleLaunch> masked_scale;
};

struct ElementwiseLaunches {
  Launcher<UnaryLaunch> unary;
  Launcher<BinaryLaunch> binary;
  Launcher<UnaryGradLaunch> unary_grad;
};

struct LossesLaunches {
  Launcher<DenseLossLaunch> dense;
  Launcher<DenseLossLaunch> dense_grad;
  Launcher<SparseLossLaunch> sparse;
  Launcher<SparseLossLaunch> sparse_grad;
};

struct PaddingLaunches {
  // Makes large planes from small planes; the frame around a small plane is 0.
  Launcher<PaddingLaunch> pad;
  // Makes small planes from large planes.
  Launcher<PaddingLaunch> crop;
};

struct PoolingLaunches {
  Launcher<MaxPoolLaunch> max_pool;
  Launcher<MaxPoolIndicesLaunch> max_pool_indices;
  Launcher<MaxPoolGradLaunch> max_pool_grad;
  Launcher<AveragePoolLaunch> average_pool;
  Launcher<AveragePoolLaunch> average_pool_grad;
  Launcher<GlobalAveragePoolLaunch> global_average_pool;
};

struct ProductsLaunches {
  Launcher<BiasLaunch> bias;
  Launcher<SpreadLaunch> spread;
};

struct ReduceLaunches {
  Launcher<SumLaunch> sum;
  Launcher<RepeatLaunch> repeat;
};

struct SoftmaxLaunches {
  Launcher<SoftmaxLaunch> softmax;
  Launcher<SoftmaxGradLaunch> softmax_grad;
};

struct SumsLaunches {
  Launcher<WeighLaunch> weigh;
  Launcher<AddToLaunch> add_to;
};

struct UpdatesLaunches {
  Launcher<SgdUpdate> sgd;
  Launcher<MomentumUpdate> momentum;
  Launcher<AdagradUpdate> adagrad;
  Launcher<RowwiseAdagradUpdate> rowwise_adagrad;
  Launcher<AdadeltaUpdate> adadelta;
  Launcher<RmspropUpdate> rmsprop;
  Launcher<AdamUpdate> adam;
  Launcher<AdamaxUpdate> adamax;
  Launcher<NadamUpdate> nadam;
  Launcher<LionUpdate> lion;
  Launcher<FtrlUpdate> ftrl;
  Launcher<AddUpdate> add;
  Launcher<AverageUpdate> average;
  Launcher<KeepUpdate> keep;
};

// The convolutions of a library: cuDNN in the module, plain loops in tests
// (tests/support/cuda_stand_in).
struct ConvolutionLaunches {
  Launcher<ConvLaunch> forward;
  Launcher<ConvLaunch> input_grad;
  Launcher<ConvLaunch> weight_grad;
};

// The matrix product of a library: cuBLAS in the module, plain loops in tests.
struct GemmLaunches {
  Launcher<GemmLaunch> gemm;
};

struct CudaLaunches {
  BatchNormLaunches batch_norm;
  DropoutLaunches dropout;
  ElementwiseLaunches elementwise;
  LossesLaunches losses;
  PaddingLaunches padding;
  PoolingLaunches pooling;
  ProductsLaunches products;
  ReduceLaunches reduce;
  SoftmaxLaunches softmax;
  SumsLaunches sums;
  UpdatesLaunches updates;
  ConvolutionLaunches convolution;
  GemmLaunches gemm;
};

// Each of these functions returns the launchers of one family of kernels. The .cu files define
// these functions, and tests compile the same files for the processor. The last two, which call
// cuDNN and cuBLAS, are defined elsewhere in backend/, and in tests by the stand-in for a device.
BatchNormLaunches MakeBatchNormLaunches();
DropoutLaunches MakeDropoutLaunches();
ElementwiseLaunches MakeElementwiseLaunches();
LossesLaunches MakeLossesLaunches();
PaddingLaunches MakePaddingLaunches();
PoolingLaunches MakePoolingLaunches();
ProductsLaunches MakeProductsLaunches();
ReduceLaunches MakeReduceLaunches();
SoftmaxLaunches MakeSoftmaxLaunches();
SumsLaunches MakeSumsLaunches();
UpdatesLaunches MakeUpdatesLaunches();
ConvolutionLaunches MakeConvolutionLaunches();
GemmLaunches MakeGemmLaunches();

// Returns the launchers (functions that start work on a device) of all families.
inline CudaLaunches MakeCudaLaunches() {
  return {MakeBatchNormLaunches(), MakeDropoutLaunches(), MakeElementwiseLaunches(),
          MakeLossesLaunches(),    MakePaddingLaunches(), MakePoolingLaunches(),
          MakeProductsLaunches(),  MakeReduceLaunches(),  MakeSoftmaxLaunches(),
          MakeSumsLaunches(),      MakeUpdatesLaunches(), MakeConvolutionLaunches(),
          MakeGemmLaunches()};
}

}  // namespace cohort
