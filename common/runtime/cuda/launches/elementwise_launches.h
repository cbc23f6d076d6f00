#pragma once

// Launches of operators whose output element depends on one element of each input.

#include <cstdint>

#include "common/runtime/cuda/launches/broadcast_walk.h"

namespace cohort {

struct CudaContext;

struct UnaryLaunch {
  enum class Op : int32_t { kNeg, kSqrt, kExp, kLog, kRelu, kSigmoid, kTanh };
  Op op = Op::kNeg;
  int64_t count = 0;
  const float* x = nullptr;
  float* y = nullptr;  // may be x
};

// out[i] from the elements of a and b to which `walk` leads.
struct BinaryLaunch {
  enum class Op : int32_t { kAdd, kSub, kMul, kDiv };
  Op op = Op::kAdd;
  int64_t count = 0;
  BroadcastWalk walk;
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;  // may be one that is not repeated
};

// dx from dy and the forward result y.
struct UnaryGradLaunch {
  enum class Op : int32_t { kRelu, kSigmoid, kTanh };
  Op op = Op::kRelu;
  int64_t count = 0;
  const float* dy = nullptr;
  const float* y = nullptr;
  float* dx = nullptr;  // may be dy or y
};

struct ElementwiseLaunches {
  int32_t (*unary)(CudaContext* context, const UnaryLaunch& launch);
  int32_t (*binary)(CudaContext* context, const BinaryLaunch& launch);
  int32_t (*unary_grad)(CudaContext* context, const UnaryGradLaunch& launch);
};

// Returns the launches; defined in elementwise.cu.
ElementwiseLaunches MakeElementwiseLaunches();

}  // namespace cohort
