#pragma once

// Shapes and attributes of the reductions, for all backends. The shape `kept` is the input's shape
// with an extent of 1 for each reduced axis, so it broadcasts to the input's shape. A reduction
// therefore walks over the input and adds each element to the element of `kept` that broadcasts to
// it; a gradient takes the same walk in the other direction.

#include <cstdint>
#include <vector>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct ReduceParameters {
  std::vector<int64_t> axes;  // the axes to reduce; empty: all axes
  bool keep_dims = true;
  bool no_axes_is_identity = false;
  bool mean = false;
};
// Reads the attributes of ReduceSum, which takes its axes as an input.
ReduceParameters ParseReduceSum(AttributeReader& reader);
// Reads the attributes of ReduceMean, which takes its axes as an attribute.
ReduceParameters ParseReduceMean(AttributeReader& reader);
ReduceParameters ParseReduceGrad(AttributeReader& reader);
// Reads the attributes axes and keepdims, which all reductions except ReduceSum have.
ReduceParameters ParseReduceAxes(AttributeReader& reader);

struct ReduceShape {
  Shape kept;         // the input's shape with an extent of 1 for each reduced axis
  Shape result;       // the shape of the result: without the reduced axes, unless keep_dims is set
  int64_t count = 1;  // number of input elements that are reduced to one result element
};
// Returns the shapes of a reduction. Errors: INVALID_ARGUMENT for an axis outside the rank, or an
// axis that is named twice.
absl::StatusOr<ReduceShape> ResolveReduce(const Shape& input, const ReduceParameters& parameters);

// Returns the parameters of a ReduceSum node. If `axes`, the node's optional second input, has a
// value, the parameters' axes are its elements.
absl::StatusOr<ReduceParameters> WithAxesInput(const ReduceParameters& parameters,
                                               const Tensor& axes);

struct ArgMaxParameters {
  int64_t axis = 0;
  bool keep_dims = true;
  bool last = false;
};
ArgMaxParameters ParseArgMax(AttributeReader& reader);

}  // namespace cohort
