#pragma once

// Everything that a kernel can start on a device: one function for each loop of a family of
// operators, and the calls of cuBLAS and cuDNN. A function takes its context and one struct.
// Pointers in the struct point to the device's memory, and to floats unless another type is named;
// sizes are in elements. A function returns a code of cuda_table.h; the work that the function has
// started runs later.
//
// These headers are plain C++, because nvcc compiles them, too.

#include "common/runtime/cuda/launches/batch_normalization_launches.h"
#include "common/runtime/cuda/launches/convolution_launches.h"
#include "common/runtime/cuda/launches/dropout_launches.h"
#include "common/runtime/cuda/launches/elementwise_launches.h"
#include "common/runtime/cuda/launches/losses_launches.h"
#include "common/runtime/cuda/launches/padding_launches.h"
#include "common/runtime/cuda/launches/pooling_launches.h"
#include "common/runtime/cuda/launches/products_launches.h"
#include "common/runtime/cuda/launches/reduce_launches.h"
#include "common/runtime/cuda/launches/softmax_launches.h"
#include "common/runtime/cuda/launches/sums_launches.h"
#include "common/runtime/cuda/launches/updates_launches.h"

namespace cohort {

struct CudaContext;

inline constexpr int32_t kCudaDone = 0;

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
  // The convolutions and matrix products that libraries compute.
  ConvLibrary convolution;
  GemmLibrary gemm;
};

// Returns all functions of CudaLaunches except those of libraries, which stay null.
CudaLaunches MakeCudaLaunches();

}  // namespace cohort
