#pragma once

// Products of float32 matrices in the precision of their node.

#include "common/program/product_precision.h"
#include "common/runtime/kernels/cpu/sgemm.h"

namespace cohort {

struct GemmSettings {
  int threads = 1;
  ProductPrecision precision = ProductPrecision::kFloat32;
};

// Returns whether the processor multiplies bfloat16: if not, rounding would cost time and gain
// nothing, so products stay in float32.
bool ProcessorHasBfloat16();

// Returns the precision in which this processor computes the products of a node.
ProductPrecision PrecisionHere(const onnx::NodeProto& node);

// Computes what Sgemm computes. With kBfloat16, the elements of a and b are rounded to the nearest
// bfloat16, a tie to the even one. Any extent may be 0.
void Gemm(const GemmExtents& extents, const GemmFactor& a, const GemmFactor& b, const GemmResult& c,
          const GemmScale& scale, const GemmSettings& settings);

}  // namespace cohort
