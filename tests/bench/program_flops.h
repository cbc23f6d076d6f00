#pragma once

// The multiplications and additions of a graph's products, convolutions and recurrent layers, by
// which a step is compared with SGEMM. All other operators count as nothing.

#include "onnx/onnx_pb.h"

namespace cohort::bench {

// Returns the floating-point operations of one run on a batch of `batch` examples. A convolution
// counts as if its window lay within the image everywhere.
double FlopsOf(const onnx::GraphProto& graph, int batch);

}  // namespace cohort::bench
