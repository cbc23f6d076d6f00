#pragma once

// Of operators whose output element depends on one element of each input.

#include <cstdint>

namespace cohort {

struct CudaContext;

enum class UnaryOp : int32_t { kNeg, kSqrt, kExp, kLog, kRelu, kSigmoid, kTanh };

struct UnaryLaunch {
  UnaryOp op = UnaryOp::kNeg;
  int64_t count = 0;
  const float* x = nullptr;
  float* y = nullptr;  // may be x
};

struct ElementwiseLaunches {
  int32_t (*unary)(CudaContext* context, const UnaryLaunch& launch);
};

// In elementwise.cu.
ElementwiseLaunches MakeElementwiseLaunches();

}  // namespace cohort
