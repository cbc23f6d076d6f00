#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/dropout_support.h"

namespace cohort {

namespace {

using None = CpuRegistration::NoParameters;

// Runs Dropout in training if both outputs are wanted, as in every train step. The reference kernel
// does the rest: an unwanted mask would need memory of its own.
bool RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor x = context.input(0);
  const absl::StatusOr<DropoutMode> mode = ReadDropoutMode(context, 1);
  if (!mode.ok() || !mode->training || !IsFloat32(x)) return false;
  if (!context.output_wanted(0) || !context.output_wanted(1)) return false;
  bool* mask = context.Output(1, DType::kBool, x.shape()).mutable_data<bool>();
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  // The mask is written first, because y may overwrite x.
  MaskLoop(DropoutStream(parameters, context.run()),
           {mask, x.num_elements(), FirstElement(context.run(), x.shape()), mode->Threshold()});
  MaskedScaleLoop(static_cast<float>(mode->Scale()), x.data<float>(), mask,
                  {y.mutable_data<float>(), x.num_elements()});
  return true;
}

bool RunDropoutGrad(KernelContext& context, const None&) {
  const Tensor dy = context.input(0);
  const Tensor mask = context.input(1);
  const absl::StatusOr<DropoutMode> mode = ReadDropoutMode(context, 2);
  if (!mode.ok() || !mode->training || !IsFloat32(dy)) return false;
  if (mask.dtype() != DType::kBool || mask.shape() != dy.shape()) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, dy.shape());
  MaskedScaleLoop(static_cast<float>(mode->Scale()), dy.data<float>(), mask.data<bool>(),
                  {dx.mutable_data<float>(), dy.num_elements()});
  return true;
}

}  // namespace

void RegisterCpuDropout(const CpuRegistration& registration) {
  registration.Add("", "Dropout", ParseDropout, RunDropout);
  registration.Add<None>("cohort", "DropoutGrad", CpuRegistration::ParseNothing, RunDropoutGrad);
}

}  // namespace cohort
