#include <algorithm>

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/reduce_shape.h"

namespace cohort {

namespace {

// The number of partial sums that keeps a device busy, and the smallest number of elements for
// which a partial sum pays.
constexpr int64_t kPartialSums = 65536;
constexpr int64_t kPartLengthMin = 256;

// Returns the number of partial sums into which each of `count` sums is split. Each sum has
// `length` elements, which are not neighbours in memory. Partial sums run at the same time. Their
// number depends on the sizes only, so the order of additions is always the same.
int64_t PartsOfColumn(int64_t count, int64_t length) {
  return std::clamp<int64_t>(std::min(kPartialSums / count, length / kPartLengthMin), 1, 1024);
}

// The axes of the input, split into axes that a sum keeps and axes that it reduces. In the merged
// axes of `kept` (reduce_shape.h) and the input, a reduced axis is one whose stride in `kept` is 0.
struct SumAxes {
  std::vector<BroadcastAxis> kept;
  std::vector<BroadcastAxis> reduced;
  bool columns = false;
};

SumAxes Split(const std::vector<BroadcastAxis>& axes) {
  SumAxes split;
  for (const BroadcastAxis& axis : axes) {
    (axis.stride_a == 0 ? split.reduced : split.kept).push_back({axis.size, axis.stride_b, 0});
  }
  split.columns = axes.back().stride_a != 0;
  return split;
}

// Plans the launch that sums `input` to the shape `kept`, which broadcasts to the input's shape.
absl::StatusOr<SumLaunch> PlanSum(const Tensor& input, const Shape& kept) {
  SumLaunch launch;
  launch.count = kept.num_elements();
  if (input.num_elements() == 0) return launch;  // the result is empty, or each sum has no elements
  const SumAxes axes = Split(BroadcastAxes(kept, input.shape(), input.shape()));
  ASSIGN_OR_RETURN(launch.kept, MakeWalk(axes.kept));
  ASSIGN_OR_RETURN(launch.reduced, MakeWalk(axes.reduced));
  launch.length = input.num_elements() / launch.count;
  launch.columns = axes.columns;
  // If neighbouring elements belong to different sums, each sum is split into partial sums here, so
  // that the whole device has work. Sums of neighbouring elements are split by the launch itself.
  if (launch.columns) launch.parts = PartsOfColumn(launch.count, launch.length);
  launch.x = OnDevice<float>(input);
  return launch;
}

// Posts the launch that PlanSum has planned. The sums are written to `output`, one element for each
// sum.
void PostSum(CudaStream& stream, SumLaunch launch, Tensor& output) {
  if (launch.count == 0) return;
  launch.y = OnDevice<float>(output);
  Tensor partial;
  if (launch.parts > 1) {
    partial = stream.NewTensor(DType::kFloat64, Shape{launch.parts, launch.count});
    launch.partial = OnDevice<double>(partial);
  }
  stream.Launch(&CudaLaunches::reduce, &ReduceLaunches::sum, launch);
}

absl::Status Reduce(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor input = context.input(0);
  RETURN_IF_ERROR(RequireType(input, DType::kFloat32));
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  ASSIGN_OR_RETURN(SumLaunch launch, PlanSum(input, shape.kept));
  if (parameters.mean) launch.divisor = static_cast<double>(shape.count);
  PostSum(context.stream(), launch, context.Output(0, DType::kFloat32, shape.result));
  return absl::OkStatus();
}

absl::Status RunReduceSum(KernelContext& context, const ReduceParameters& parameters) {
  ASSIGN_OR_RETURN(const ReduceParameters resolved, WithAxesInput(parameters, context.input(1)));
  if (resolved.axes.empty() && resolved.no_axes_is_identity) {
    RETURN_IF_ERROR(RequireType(context.input(0), DType::kFloat32));
    context.Forward(0, context.input(0));
    return absl::OkStatus();
  }
  return Reduce(context, resolved);
}

absl::Status RunReduceToShapeOf(KernelContext& context) {
  const Tensor grad = context.input(0);
  const Shape like = context.input(1).shape();
  RETURN_IF_ERROR(RequireType(grad, DType::kFloat32));
  if (grad.shape() == like) {
    context.Forward(0, grad);
    return absl::OkStatus();
  }
  const absl::StatusOr<Shape> shape = BroadcastShape(like, grad.shape());
  if (!shape.ok() || *shape != grad.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat(like.ToString(), " does not broadcast to ", grad.TypeString()));
  }
  ASSIGN_OR_RETURN(const SumLaunch launch, PlanSum(grad, like));
  PostSum(context.stream(), launch, context.Output(0, DType::kFloat32, like));
  return absl::OkStatus();
}

absl::Status RunReduceGrad(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor dy = context.input(0);
  const Shape input = context.input(1).shape();
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input, parameters));
  if (dy.shape() != shape.result) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", dy.TypeString(), " where the reduction gave ", shape.result.ToString()));
  }
  ASSIGN_OR_RETURN(const BroadcastWalk walk, MakeWalk(BroadcastAxes(shape.kept, input, input)));
  const float scale = parameters.mean ? 1.0f / static_cast<float>(shape.count) : 1.0f;
  Tensor& dx = context.Output(0, DType::kFloat32, input);
  context.stream().Launch(
      &CudaLaunches::reduce, &ReduceLaunches::repeat,
      {dx.num_elements(), walk, scale, OnDevice<float>(dy), OnDevice<float>(dx)});
  return absl::OkStatus();
}

}  // namespace

void RegisterCudaReduce(KernelRegistry& registry) {
  const InputPlace device = InputPlace::kDevice;
  registry.Add("", "ReduceSum",
               DeviceKernel({1, 2, {kFloat32, kIndices}}, {device, InputPlace::kHost},
                            ParseReduceSum, RunReduceSum));
  registry.Add("", "ReduceMean", DeviceKernel({1, 1, {kFloat32}}, {}, ParseReduceMean, Reduce));
  registry.Add("cohort", "ReduceGrad",
               DeviceKernel({2, 2, {kFloat32, kAnyType}}, {device, InputPlace::kEither},
                            ParseReduceGrad, RunReduceGrad));
  registry.Add("cohort", "ReduceToShapeOf",
               DeviceKernel({2, 2, {kFloat32, kAnyType}}, {device, InputPlace::kEither},
                            RunReduceToShapeOf));
}

}  // namespace cohort
