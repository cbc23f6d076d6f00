#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/dropout_support.h"

namespace cohort {

namespace {

absl::Status RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor x = context.input(0);
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 1));
  RETURN_IF_ERROR(RequireType(x, DType::kFloat32));
  DropoutLaunch launch;  // a launch's default threshold of 0 keeps all elements
  launch.count = x.num_elements();
  if (context.output_wanted(1)) {
    launch.mask = OnDevice<bool>(context.Output(1, DType::kBool, x.shape()));
  }
  if (mode.training) {
    // The device draws the same bits as the processor: the mask does not depend on where it is
    // computed.
    launch.key = DropoutStream(parameters, context.run()).key();
    launch.first = FirstElement(context.run(), x.shape());
    launch.threshold = mode.Threshold();
    launch.scale = static_cast<float>(mode.Scale());
    launch.x = OnDevice<float>(x);
    if (context.output_wanted(0)) {
      launch.y = OnDevice<float>(context.OutputOver(0, 0, DType::kFloat32, x.shape()));
    }
  } else if (context.output_wanted(0)) {
    context.Forward(0, x);
  }
  if (launch.mask == nullptr && launch.y == nullptr) return absl::OkStatus();
  context.stream().Launch(&CudaLaunches::dropout, &DropoutLaunches::dropout, launch);
  return absl::OkStatus();
}

absl::Status RunDropoutGrad(KernelContext& context) {
  const Tensor dy = context.input(0);
  const Tensor mask = context.input(1);
  RETURN_IF_ERROR(RequireType(mask, DType::kBool));
  RETURN_IF_ERROR(RequireSameShape(dy, mask));
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 2));
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  if (!mode.training) {
    context.Forward(0, dy);
    return absl::OkStatus();
  }
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, dy.shape());
  context.stream().Launch(&CudaLaunches::dropout, &DropoutLaunches::masked_scale,
                          {dy.num_elements(), static_cast<float>(mode.Scale()), OnDevice<float>(dy),
                           OnDevice<bool>(mask), OnDevice<float>(dx)});
  return absl::OkStatus();
}

}  // namespace

void RegisterCudaDropout(KernelRegistry& registry) {
  const InputPlace device = InputPlace::kDevice;
  // The processor reads the inputs ratio and training_mode before the launch.
  const InputPlace host = InputPlace::kHost;
  registry.Add("", "Dropout",
               DeviceKernel({1, 3, {kFloat32, kNumbers, kBools}, 2}, {device, host, host},
                            ParseDropout, RunDropout));
  registry.Add("cohort", "DropoutGrad",
               DeviceKernel({2, 4, {kFloat32, kBools, kNumbers, kBools}},
                            {device, device, host, host}, RunDropoutGrad));
}

}  // namespace cohort
