#pragma once

// Shapes and attributes of the reductions, shared by both backends. A reduction sees its result
// under the kept shape (reduced axes have extent 1), which broadcasts to the input's shape; so
// reducing is adding up a broadcast walk, and the gradient of a reduction is that walk backwards.

#include <cstdint>
#include <vector>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct ReduceParameters {
  std::vector<int64_t> axes;  // none: all
  bool keep_dims = true;
  bool no_axes_is_identity = false;
  bool mean = false;
};
ReduceParameters ParseReduceSum(AttributeReader& reader);   // axes are an input
ReduceParameters ParseReduceMean(AttributeReader& reader);  // axes are an attribute
ReduceParameters ParseReduceGrad(AttributeReader& reader);

struct ReduceShape {
  Shape kept;         // the input's shape with reduced axes of 1
  Shape result;       // without the reduced axes unless they are kept
  int64_t count = 1;  // input elements per result element
};
// Errors: INVALID_ARGUMENT for an axis outside the rank or given twice.
absl::StatusOr<ReduceShape> ResolveReduce(const Shape& input, const ReduceParameters& parameters);

// Returns the parameters of a ReduceSum with its optional second input.
absl::StatusOr<ReduceParameters> WithAxesInput(const ReduceParameters& parameters,
                                               const Tensor& axes);

struct ArgMaxParameters {
  int64_t axis = 0;
  bool keep_dims = true;
  bool last = false;
};
ArgMaxParameters ParseArgMax(AttributeReader& reader);

}  // namespace cohort
