#include <algorithm>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/reduce_shape.h"

namespace cohort {

namespace {

using None = CpuRegistration::NoParameters;

// Adds up the elements of `input` that share an element of the shape `kept`, which broadcasts to
// the input's shape, and writes the sums to `out`.
void AddUp(const Tensor& input, const Shape& kept, float* out) {
  std::fill_n(out, kept.num_elements(), 0.0f);
  const std::vector<BroadcastAxis> axes = BroadcastAxes(kept, input.shape(), input.shape());
  const BroadcastAxis run = axes.back();
  const float* data = input.data<float>();
  ForEachRun(axes, [&](int64_t to, int64_t from, int64_t) {
    // If the stride in `kept` is 1, neighbouring elements of the run belong to different sums. If
    // it is 0, the whole run belongs to one sum.
    if (run.stride_a == 1) {
      AccumulateLoop(data + from, {out + to, run.size});
    } else {
      out[to] += SumLoop(data + from, run.size);
    }
  });
}

bool Reduce(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor input = context.input(0);
  if (!IsFloat32(input) || input.num_elements() == 0) return false;
  const absl::StatusOr<ReduceShape> shape = ResolveReduce(input.shape(), parameters);
  if (!shape.ok()) return false;
  Tensor& output = context.Output(0, DType::kFloat32, shape->result);
  float* out = output.mutable_data<float>();
  AddUp(input, shape->kept, out);
  if (parameters.mean) {
    ScaleLoop(1.0f / static_cast<float>(shape->count), {out, 1}, {out, output.num_elements()});
  }
  return true;
}

bool RunReduceSum(KernelContext& context, const ReduceParameters& parameters) {
  const absl::StatusOr<ReduceParameters> resolved = WithAxesInput(parameters, context.input(1));
  // ReduceSum without axes reduces nothing if noop_with_empty_axes is set. The reference kernel
  // runs in that case.
  if (!resolved.ok() || (resolved->axes.empty() && resolved->no_axes_is_identity)) return false;
  return Reduce(context, *resolved);
}

bool RunReduceToShapeOf(KernelContext& context, const None&) {
  const Tensor grad = context.input(0);
  const Shape like = context.input(1).shape();
  if (!IsFloat32(grad)) return false;
  // If the gradient already has the wanted shape, nothing is added up: the output shares the
  // gradient's bytes.
  if (grad.shape() == like) {
    context.Forward(0, grad);
    return true;
  }
  const absl::StatusOr<Shape> shape = BroadcastShape(like, grad.shape());
  if (!shape.ok() || *shape != grad.shape()) return false;
  AddUp(grad, like, context.Output(0, DType::kFloat32, like).mutable_data<float>());
  return true;
}

bool RunReduceGrad(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor dy = context.input(0);
  const Shape input = context.input(1).shape();
  const absl::StatusOr<ReduceShape> shape = ResolveReduce(input, parameters);
  if (!IsFloat32(dy) || !shape.ok() || dy.shape() != shape->result) return false;
  const float scale = parameters.mean ? 1.0f / static_cast<float>(shape->count) : 1.0f;
  float* out = context.Output(0, DType::kFloat32, input).mutable_data<float>();
  const std::vector<BroadcastAxis> axes = BroadcastAxes(shape->kept, input, input);
  const BroadcastAxis run = axes.back();
  ForEachRun(axes, [&](int64_t from, int64_t, int64_t to) {
    ScaleLoop(scale, {dy.data<float>() + from, run.stride_a}, {out + to, run.size});
  });
  return true;
}

}  // namespace

void RegisterCpuReduce(const CpuRegistration& registration) {
  registration.Add("", "ReduceSum", ParseReduceSum, RunReduceSum);
  registration.Add("", "ReduceMean", ParseReduceMean, Reduce);
  registration.Add("cohort", "ReduceGrad", ParseReduceGrad, RunReduceGrad);
  registration.Add<None>("cohort", "ReduceToShapeOf", CpuRegistration::ParseNothing,
                         RunReduceToShapeOf);
}

}  // namespace cohort
