#include <algorithm>
#include <cmath>
#include <limits>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"

namespace cohort {

namespace {

float ParseClipNorm(AttributeReader& reader) { return reader.Float("clip_norm", 0); }
float ParseClipValue(AttributeReader& reader) { return reader.Float("clip_value", 0); }

bool RunClipByNorm(KernelContext& context, const float& clip_norm) {
  // One norm is computed over all inputs together, as in tf.clip_by_global_norm.
  double sum = 0;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Tensor& in = context.input(i);
    if (!IsFloat32(in)) return false;
    sum += SumOfSquaresLoop(in.data<float>(), in.num_elements());
  }
  const double norm = std::sqrt(sum);
  // In most steps of healthy training the norm is within the limit. The outputs then share the
  // bytes of the inputs.
  const bool keep = norm <= clip_norm;
  // If the norm is infinite or NaN, all outputs become NaN, so a diverged step is not hidden.
  const double scale = std::isfinite(norm) ? clip_norm / std::max<double>(norm, clip_norm)
                                           : std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < context.num_inputs(); ++i) {
    // An input whose output is not wanted still counts in the norm.
    if (!context.output_wanted(i)) continue;
    const Tensor in = context.input(i);
    if (keep) {
      context.Forward(i, in);
      continue;
    }
    Tensor& out = context.OutputOver(i, i, DType::kFloat32, in.shape());
    ScaleLoop(static_cast<float>(scale), {in.data<float>(), 1},
              {out.mutable_data<float>(), in.num_elements()});
  }
  return true;
}

bool RunClipByValue(KernelContext& context, const float& clip_value) {
  const Tensor in = context.input(0);
  if (!IsFloat32(in)) return false;
  Tensor& out = context.OutputOver(0, 0, DType::kFloat32, in.shape());
  ClipLoop(clip_value, in.data<float>(), {out.mutable_data<float>(), in.num_elements()});
  return true;
}

}  // namespace

void RegisterCpuClipping(const CpuRegistration& registration) {
  registration.Add("cohort", "ClipByNorm", ParseClipNorm, RunClipByNorm);
  registration.Add("cohort", "ClipByValue", ParseClipValue, RunClipByValue);
}

}  // namespace cohort
