#pragma once

// Launches (functions that start a loop on a device) of operators whose output elements depend on
// one element of each input.

#include <cstdint>

#include "common/runtime/cuda/launches/broadcast_walk.h"

namespace cohort {

struct CudaContext;

struct UnaryLaunch {
  enum class Op : int32_t { kNeg, kSqrt, kExp, kLog, kRelu, kSigmoid, kTanh };
  Op op = Op::kNeg;
  int64_t count = 0;
  const float* x = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes out[i] from the elements of a and b at the places that `walk` gives for i.
struct BinaryLaunch {
  enum class Op : int32_t { kAdd, kSub, kMul, kDiv };
  Op op = Op::kAdd;
  int64_t count = 0;
  BroadcastWalk walk;
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;  // the output may be the same memory as an input that is not repeated
};

// Computes the gradient dx of an operator from dy and the operator's result y.
struct UnaryGradLaunch {
  enum class Op : int32_t { kRelu, kSigmoid, kTanh };
  Op op = Op::kRelu;
  int64_t count = 0;
  const float* dy = nullptr;
  const float* y = nullptr;
  float* dx = nullptr;  // dx may be the same memory as dy or y
};

struct ElementwiseLaunches {
  int32_t (*unary)(CudaContext* context, const UnaryLaunch& launch);
  int32_t (*binary)(CudaContext* context, const BinaryLaunch& launch);
  int32_t (*unary_grad)(CudaContext* context, const UnaryGradLaunch& launch);
};

// Returns the functions that start elementwise loops on a device; elementwise.cu defines them.
ElementwiseLaunches MakeElementwiseLaunches();

}  // namespace cohort
