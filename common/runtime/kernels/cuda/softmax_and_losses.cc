// Softmax and Keras's cross-entropies. Each line of elements along one axis of a tensor is computed
// by itself.

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/loss_support.h"

namespace cohort {

namespace {

// Returns the lines of elements along an axis, as DeviceLines for a launch.
DeviceLines LinesOf(const AxisView& view) {
  return {view.outer * view.inner, view.size, view.inner};
}

template <bool kLog>
absl::Status RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor x = context.input(0);
  RETURN_IF_ERROR(RequireType(x, DType::kFloat32));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  const DeviceLines lines = LinesOf(ViewAroundAxis(x.shape(), axis));
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  if (x.num_elements() == 0) return absl::OkStatus();
  // Scratch memory of the launch. The tensor may be dropped at once, since the stream reuses its
  // memory only for later work.
  Tensor sums = context.stream().NewTensor(DType::kFloat64, Shape{2, lines.count});
  context.stream().Launch(
      &CudaLaunches::softmax, &SoftmaxLaunches::softmax,
      {kLog, lines, OnDevice<float>(x), OnDevice<double>(sums), OnDevice<float>(y)});
  return absl::OkStatus();
}

template <bool kLog>
absl::Status RunSoftmaxGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, y.shape().rank()));
  const DeviceLines lines = LinesOf(ViewAroundAxis(y.shape(), axis));
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  if (y.num_elements() == 0) return absl::OkStatus();
  Tensor sums = context.stream().NewTensor(DType::kFloat64, Shape{lines.count});
  context.stream().Launch(&CudaLaunches::softmax, &SoftmaxLaunches::softmax_grad,
                          {kLog, lines, OnDevice<float>(dy), OnDevice<float>(y),
                           OnDevice<double>(sums), OnDevice<float>(dx)});
  return absl::OkStatus();
}

void AddSoftmax(KernelRegistry& registry) {
  const auto add = [&](const char* domain, const char* op, int inputs,
                       absl::Status (*run)(KernelContext&, const AxisParameters&)) {
    registry.Add(domain, op, DeviceKernel({inputs, inputs, {kFloat32}}, {}, ParseLastAxis, run));
  };
  add("", "Softmax", 1, RunSoftmax<false>);
  add("", "LogSoftmax", 1, RunSoftmax<true>);
  add("cohort", "SoftmaxGrad", 2, RunSoftmaxGrad<false>);
  add("cohort", "LogSoftmaxGrad", 2, RunSoftmaxGrad<true>);
}

absl::StatusOr<LossView> ResolveView(const Tensor& prediction, int64_t axis) {
  RETURN_IF_ERROR(RequireType(prediction, DType::kFloat32));
  return ViewOfLoss(prediction, axis);
}

// Allocates scratch for two doubles per line. The stream reuses the memory only for work that runs
// later, so the caller may drop the tensor at once.
Tensor RoomForSums(CudaStream& stream, const LossView& view) {
  return stream.NewTensor(DType::kFloat64, Shape{2, LinesOf(view.view).count});
}

absl::Status RunDense(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor truth = context.input(0);
  const Tensor prediction = context.input(1);
  RETURN_IF_ERROR(CheckDenseLabels(truth, prediction));
  ASSIGN_OR_RETURN(const LossView view, ResolveView(prediction, parameters.axis));
  Tensor& out = context.Output(0, DType::kFloat32, view.loss);
  if (out.num_elements() == 0) return absl::OkStatus();
  Tensor sums = RoomForSums(context.stream(), view);
  context.stream().Launch(
      &CudaLaunches::losses, &LossesLaunches::dense,
      {parameters.from_logits, LinesOf(view.view), OnDevice<float>(truth),
       OnDevice<float>(prediction), OnDevice<double>(sums), nullptr, OnDevice<float>(out)});
  return absl::OkStatus();
}

absl::Status RunDenseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor dloss = context.input(0);
  const Tensor truth = context.input(1);
  const Tensor prediction = context.input(2);
  RETURN_IF_ERROR(CheckDenseLabels(truth, prediction));
  ASSIGN_OR_RETURN(const LossView view, ResolveView(prediction, parameters.axis));
  RETURN_IF_ERROR(CheckLossGradient(dloss, prediction, view));
  Tensor& out = context.Output(0, DType::kFloat32, prediction.shape());
  if (out.num_elements() == 0) return absl::OkStatus();
  Tensor sums = RoomForSums(context.stream(), view);
  context.stream().Launch(&CudaLaunches::losses, &LossesLaunches::dense_grad,
                          {parameters.from_logits, LinesOf(view.view), OnDevice<float>(truth),
                           OnDevice<float>(prediction), OnDevice<double>(sums),
                           OnDevice<float>(dloss), OnDevice<float>(out)});
  return absl::OkStatus();
}

// Posts the launch `post` of the sparse loss or of its gradient. The caller has checked that all
// labels are in range.
void PostSparse(KernelContext& context, const SparseLossLaunch& launch,
                const std::vector<int64_t>& labels, const LossView& view,
                Launcher<SparseLossLaunch> LossesLaunches::*post) {
  CudaStream& stream = context.stream();
  const Tensor uploaded = stream.Upload(Tensor::FromVector<int64_t>(labels, view.loss));
  Tensor sums = RoomForSums(stream, view);
  SparseLossLaunch complete = launch;
  complete.lines = LinesOf(view.view);
  complete.labels = OnDevice<int64_t>(uploaded);
  complete.sums = OnDevice<double>(sums);
  stream.Launch(&CudaLaunches::losses, post, complete);
}

absl::Status RunSparse(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor prediction = context.input(1);
  ASSIGN_OR_RETURN(const LossView view, ResolveView(prediction, -1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadSparseLabels(context.input(0), view));
  Tensor& out = context.Output(0, DType::kFloat32, view.loss);
  if (out.num_elements() == 0) return absl::OkStatus();
  SparseLossLaunch launch;
  launch.from_logits = parameters.from_logits;
  launch.prediction = OnDevice<float>(prediction);
  launch.out = OnDevice<float>(out);
  PostSparse(context, launch, labels, view, &LossesLaunches::sparse);
  return absl::OkStatus();
}

absl::Status RunSparseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor dloss = context.input(0);
  const Tensor prediction = context.input(2);
  ASSIGN_OR_RETURN(const LossView view, ResolveView(prediction, -1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadSparseLabels(context.input(1), view));
  RETURN_IF_ERROR(CheckLossGradient(dloss, prediction, view));
  Tensor& out = context.Output(0, DType::kFloat32, prediction.shape());
  if (out.num_elements() == 0) return absl::OkStatus();
  SparseLossLaunch launch;
  launch.from_logits = parameters.from_logits;
  launch.prediction = OnDevice<float>(prediction);
  launch.dloss = OnDevice<float>(dloss);
  launch.out = OnDevice<float>(out);
  PostSparse(context, launch, labels, view, &LossesLaunches::sparse_grad);
  return absl::OkStatus();
}

void AddLosses(KernelRegistry& registry) {
  const InputPlace device = InputPlace::kDevice;
  // The labels must be in host memory, because the processor checks that they are in range.
  const InputPlace host = InputPlace::kHost;
  registry.Add("cohort", "CategoricalCrossentropy",
               DeviceKernel({2, 2, {kFloat32}}, {}, ParseKerasLoss, RunDense));
  registry.Add("cohort", "CategoricalCrossentropyGrad",
               DeviceKernel({3, 3, {kFloat32}}, {}, ParseKerasLoss, RunDenseGrad));
  registry.Add(
      "cohort", "SparseCategoricalCrossentropy",
      DeviceKernel({2, 2, {kLabels, kFloat32}}, {host, device}, ParseKerasLoss, RunSparse));
  registry.Add("cohort", "SparseCategoricalCrossentropyGrad",
               DeviceKernel({3, 3, {kFloat32, kLabels, kFloat32}}, {device, host, device},
                            ParseKerasLoss, RunSparseGrad));
}

}  // namespace

void RegisterCudaSoftmaxAndLosses(KernelRegistry& registry) {
  AddSoftmax(registry);
  AddLosses(registry);
}

}  // namespace cohort
