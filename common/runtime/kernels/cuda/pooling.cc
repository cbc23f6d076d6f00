#include <algorithm>

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

namespace {

Slide SlideOf(const PoolShape& shape) {
  Slide slide;
  slide.planes = shape.planes;
  slide.inputs = shape.window.inputs;
  slide.outputs = shape.window.outputs;
  const size_t count = shape.window.axes.size();
  COHORT_CHECK(count <= kSlideAxes, "the kernel was made for at most kSlideAxes axes");
  // A plane with fewer than kSlideAxes axes gets leading axes of extent 1.
  std::copy(shape.window.axes.begin(), shape.window.axes.end(), slide.axes + kSlideAxes - count);
  return slide;
}

// Allocates an output and returns its elements in the device's memory. Returns null, without
// allocating, if the output is not wanted.
template <typename T>
T* WantedOutput(KernelContext& context, int output, DType dtype, const Shape& shape) {
  if (!context.output_wanted(output)) return nullptr;
  return OnDevice<T>(context.Output(output, dtype, shape));
}

absl::Status RunMaxPool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor x = context.input(0);
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePool(x.shape(), parameters));
  const Slide slide = SlideOf(shape);
  float* const y = WantedOutput<float>(context, 0, DType::kFloat32, shape.y);
  int64_t* const indices = WantedOutput<int64_t>(context, 1, DType::kInt64, shape.y);
  context.stream().Launch(&CudaLaunches::pooling, &PoolingLaunches::max_pool,
                          {slide, OnDevice<float>(x), y, indices});
  if (indices == nullptr) return absl::OkStatus();
  // Converts the positions within planes to ONNX's indices into the whole tensor.
  context.stream().Launch(&CudaLaunches::pooling, &PoolingLaunches::max_pool_indices,
                          {slide, parameters.column_major, indices, indices});
  return absl::OkStatus();
}

absl::Status RunMaxPoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePoolGrad(dy, x.shape(), parameters));
  const Slide slide = SlideOf(shape);
  // MaxPool does not keep the positions of the windows' largest elements, so the gradient computes
  // them again.
  Tensor at = context.stream().NewTensor(DType::kInt64, shape.y);
  Tensor& dx = context.Output(0, DType::kFloat32, x.shape());
  context.stream().Launch(&CudaLaunches::pooling, &PoolingLaunches::max_pool,
                          {slide, OnDevice<float>(x), nullptr, OnDevice<int64_t>(at)});
  context.stream().Launch(&CudaLaunches::pooling, &PoolingLaunches::max_pool_grad,
                          {slide, OnDevice<float>(dy), OnDevice<int64_t>(at), OnDevice<float>(dx)});
  return absl::OkStatus();
}

absl::Status RunAveragePool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor x = context.input(0);
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePool(x.shape(), parameters));
  const Slide slide = SlideOf(shape);
  Tensor& y = context.Output(0, DType::kFloat32, shape.y);
  context.stream().Launch(
      &CudaLaunches::pooling, &PoolingLaunches::average_pool,
      {slide, parameters.count_padding, OnDevice<float>(x), OnDevice<float>(y)});
  return absl::OkStatus();
}

absl::Status RunAveragePoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor dy = context.input(0);
  const Shape x = context.input(1).shape();
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePoolGrad(dy, x, parameters));
  const Slide slide = SlideOf(shape);
  Tensor& dx = context.Output(0, DType::kFloat32, x);
  context.stream().Launch(
      &CudaLaunches::pooling, &PoolingLaunches::average_pool_grad,
      {slide, parameters.count_padding, OnDevice<float>(dy), OnDevice<float>(dx)});
  return absl::OkStatus();
}

// Runs GlobalAveragePool: the mean of each plane.
absl::Status RunGlobalAveragePool(KernelContext& context) {
  const Tensor x = context.input(0);
  ASSIGN_OR_RETURN(const GlobalPoolShape shape, ResolveGlobalPool(x));
  Tensor& y = context.Output(0, DType::kFloat32, shape.y);
  context.stream().Launch(
      &CudaLaunches::pooling, &PoolingLaunches::global_average_pool,
      {shape.y.num_elements(), shape.size, OnDevice<float>(x), OnDevice<float>(y)});
  return absl::OkStatus();
}

// Restricts a pooling kernel to windows of at most kSlideAxes axes. Nodes with other windows stay
// on the processor.
KernelDefinition WithWindowLimit(KernelDefinition definition) {
  definition.make = [make = definition.make](
                        const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    AttributeReader reader(node);
    // The number of a window's axes is checked when the program is compiled, because a node can go
    // to the processor only then.
    const size_t axes = ParseWindow(reader).kernel.size();
    if (axes > kSlideAxes) {
      return absl::UnimplementedError(absl::StrCat("a window of ", axes, " axes, for a GPU"));
    }
    return make(node);
  };
  return definition;
}

}  // namespace

void RegisterCudaPooling(KernelRegistry& registry) {
  registry.Add("", "MaxPool",
               WithWindowLimit(DeviceKernel({1, 1, {kFloat32}, 2}, {}, ParseMaxPool, RunMaxPool)));
  registry.Add("cohort", "MaxPoolGrad",
               WithWindowLimit(DeviceKernel({2, 2, {kFloat32}}, {}, ParseMaxPool, RunMaxPoolGrad)));
  registry.Add(
      "", "AveragePool",
      WithWindowLimit(DeviceKernel({1, 1, {kFloat32}}, {}, ParseAveragePool, RunAveragePool)));
  registry.Add("cohort", "AveragePoolGrad",
               WithWindowLimit(DeviceKernel({2, 2, {kFloat32, kAnyType}},
                                            {InputPlace::kDevice, InputPlace::kEither},
                                            ParseAveragePool, RunAveragePoolGrad)));
  registry.Add("", "GlobalAveragePool", DeviceKernel({1, 1, {kFloat32}}, {}, RunGlobalAveragePool));
}

}  // namespace cohort
