#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/image_loops.h"
#include "common/runtime/kernels/cpu/pool_squares.h"
#include "common/runtime/kernels/transpose_shape.h"

namespace cohort {

namespace {

// Returns whether the fast pooling loops can run: float32, a window of two axes, and positions that
// fit an int32.
bool IsFastPool(const Tensor& x, const absl::StatusOr<PoolShape>& shape) {
  return shape.ok() && shape->window.axes.size() == 2 && IsFloat32(x) && x.num_elements() > 0 &&
         shape->y.num_elements() > 0 && shape->window.inputs <= std::numeric_limits<int32_t>::max();
}

PlaneWindow PlaneOf(const Window& window) { return {window.axes[0], window.axes[1]}; }

bool RunMaxPool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor x = context.input(0);
  const absl::StatusOr<PoolShape> shape = ResolvePool(x.shape(), parameters);
  // If MaxPool's indices are wanted, the reference kernel runs: the fast loops do not compute
  // indices.
  if (!IsFastPool(x, shape) || context.output_wanted(1)) return false;
  const PlaneWindow window = PlaneOf(shape->window);
  const bool is_of_squares = IsOfSquares(window);
  SquarePool squares(window);
  float* const out = context.Output(0, DType::kFloat32, shape->y).mutable_data<float>();
  for (int64_t p = 0; p < shape->planes; ++p) {
    const float* const from = x.data<float>() + p * shape->window.inputs;
    float* const to = out + p * shape->window.outputs;
    is_of_squares ? squares.Max(from, to) : MaxPoolPlane(window, from, to);
  }
  return true;
}

bool RunMaxPoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const absl::StatusOr<PoolShape> shape = ResolvePoolGrad(dy, x.shape(), parameters);
  if (!IsFastPool(x, shape) || !IsFloat32(dy)) return false;
  const PlaneWindow window = PlaneOf(shape->window);
  const bool is_of_squares = IsOfSquares(window);
  SquarePool squares(window);
  std::vector<float> best(static_cast<size_t>(window.columns.output));
  std::vector<int32_t> at(best.size());
  float* const dx = context.Output(0, DType::kFloat32, x.shape()).mutable_data<float>();
  for (int64_t p = 0; p < shape->planes; ++p) {
    const float* const from = x.data<float>() + p * shape->window.inputs;
    const float* const grads = dy.data<float>() + p * shape->window.outputs;
    float* const plane = dx + p * shape->window.inputs;
    // An element that is the largest of no window gets the gradient 0.
    std::fill_n(plane, shape->window.inputs, 0.0f);
    if (is_of_squares) {
      squares.Gradient(from, grads, plane);
    } else {
      MaxPoolGradPlane(window, from, grads, plane, {best.data(), at.data()});
    }
  }
  return true;
}

// Returns 1 / divisor for each window of an average pooling; the pooling loops multiply by these
// rates instead of dividing.
std::vector<float> AverageRates(const Window& window, const PoolParameters& parameters) {
  std::vector<float> rates;
  for (const double divisor : AverageDivisors(window, parameters.count_padding)) {
    rates.push_back(static_cast<float>(1 / divisor));
  }
  return rates;
}

bool RunAveragePool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor x = context.input(0);
  const absl::StatusOr<PoolShape> shape = ResolvePool(x.shape(), parameters);
  if (!IsFastPool(x, shape)) return false;
  const PlaneWindow window = PlaneOf(shape->window);
  const std::vector<float> rates = AverageRates(shape->window, parameters);
  float* const out = context.Output(0, DType::kFloat32, shape->y).mutable_data<float>();
  for (int64_t p = 0; p < shape->planes; ++p) {
    AveragePoolPlane(window, x.data<float>() + p * shape->window.inputs, rates.data(),
                     out + p * shape->window.outputs);
  }
  return true;
}

bool RunAveragePoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor dy = context.input(0);
  const Shape x = context.input(1).shape();
  const absl::StatusOr<PoolShape> shape = ResolvePoolGrad(dy, x, parameters);
  if (!IsFastPool(dy, shape) || x.num_elements() == 0) return false;
  const PlaneWindow window = PlaneOf(shape->window);
  const std::vector<float> rates = AverageRates(shape->window, parameters);
  float* const dx = context.Output(0, DType::kFloat32, x).mutable_data<float>();
  std::fill_n(dx, x.num_elements(), 0.0f);
  for (int64_t p = 0; p < shape->planes; ++p) {
    AveragePoolGradPlane(window, dy.data<float>() + p * shape->window.outputs, rates.data(),
                         dx + p * shape->window.inputs);
  }
  return true;
}

// Transposes a tensor as a sequence of matrices. The two axes of a matrix are the one that is
// contiguous in the input and the one that is contiguous in the result. A walk over all other axes
// visits the matrices.
void Transpose(const TransposeShape& shape, const float* in, float* out) {
  std::vector<TransposeShape::Axis> axes = shape.axes;
  const TransposeShape::Axis last = axes.back();
  size_t close = 0;
  while (axes[close].stride != 1) ++close;
  std::vector<int64_t> strides(axes.size(), 1);  // strides of the axes in the result
  for (size_t axis = axes.size() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * axes[axis].size;
  }
  // If one axis is contiguous both in the input and in the result, its elements are copied as one
  // block.
  const bool is_copy = close + 1 == axes.size();
  // The walk over the other axes skips the two axes of the matrix, whose sizes are therefore set to
  // 1.
  const TransposeShape::Axis turned = axes[close];
  const int64_t turned_stride = strides[close];
  axes[close].size = 1;
  axes.back().size = 1;
  std::vector<int64_t> index(axes.size(), 0);
  int64_t from = 0;
  int64_t to = 0;
  while (true) {
    if (is_copy) {
      std::memcpy(out + to, in + from, static_cast<size_t>(last.size) * sizeof(float));
    } else {
      TurnLoop({in + from, last.stride, out + to, turned_stride, turned.size, last.size});
    }
    size_t axis = axes.size();
    for (; axis > 0; --axis) {
      from += axes[axis - 1].stride;
      to += strides[axis - 1];
      if (++index[axis - 1] < axes[axis - 1].size) break;
      from -= axes[axis - 1].stride * axes[axis - 1].size;
      to -= strides[axis - 1] * axes[axis - 1].size;
      index[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

bool RunTranspose(KernelContext& context, const TransposeParameters& parameters) {
  const Tensor input = context.input(0);
  const absl::StatusOr<TransposeShape> shape = ResolveTranspose(input.shape(), parameters);
  if (!shape.ok() || !IsFloat32(input) || input.num_elements() == 0) return false;
  // If no element moves, the reference kernel runs, which shares the input's bytes.
  if (shape->axes.empty()) return false;
  Tensor& output = context.Output(0, DType::kFloat32, shape->result);
  Transpose(*shape, input.data<float>(), output.mutable_data<float>());
  return true;
}

}  // namespace

void RegisterCpuImage(const CpuRegistration& registration) {
  registration.Add("", "MaxPool", ParseMaxPool, RunMaxPool);
  registration.Add("cohort", "MaxPoolGrad", ParseMaxPool, RunMaxPoolGrad);
  registration.Add("", "AveragePool", ParseAveragePool, RunAveragePool);
  registration.Add("cohort", "AveragePoolGrad", ParseAveragePool, RunAveragePoolGrad);
  registration.Add("", "Transpose", ParseTranspose, RunTranspose);
}

}  // namespace cohort
