#include <algorithm>
#include <cmath>
#include <limits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

float ParseClipNorm(AttributeReader& reader) { return reader.Float("clip_norm", 0); }
float ParseClipValue(AttributeReader& reader) { return reader.Float("clip_value", 0); }

absl::Status RunClipByNorm(KernelContext& context, const float& clip_norm) {
  return DispatchFloats(context.input(0), [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    // One norm is computed over all inputs together, as in tf.clip_by_global_norm.
    double sum = 0;
    for (int i = 0; i < context.num_inputs(); ++i) {
      RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(i)));
      for (const T x : context.input(i).template span<T>()) {
        sum += static_cast<double>(x) * static_cast<double>(x);
      }
    }
    const double norm = std::sqrt(sum);
    // If the norm is infinite or NaN, all outputs become NaN, so a diverged step is not hidden.
    const double scale = std::isfinite(norm) ? clip_norm / std::max<double>(norm, clip_norm)
                                             : std::numeric_limits<double>::quiet_NaN();
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& in = context.input(i);
      if (!context.output_wanted(i)) continue;
      T* out = context.Output(i, in.dtype(), in.shape()).template mutable_data<T>();
      for (const T x : in.template span<T>()) *out++ = static_cast<T>(x * scale);
    }
    return absl::OkStatus();
  });
}

absl::Status RunClipByValue(KernelContext& context, const float& clip_value) {
  const Tensor& in = context.input(0);
  return DispatchFloats(in, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T limit = static_cast<T>(clip_value);
    T* out = context.Output(0, in.dtype(), in.shape()).template mutable_data<T>();
    // A NaN fails both comparisons with the limit, so it stays NaN.
    for (const T x : in.template span<T>()) *out++ = x > limit ? limit : x < -limit ? -limit : x;
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceClipping(KernelRegistry& registry) {
  registry.Add("cohort", "ClipByNorm",
               BoundKernel<float>({1, kAnyNumber, {kFloats}, kAnyNumber, kFloats}, ParseClipNorm,
                                  RunClipByNorm));
  registry.Add("cohort", "ClipByValue",
               BoundKernel<float>({1, 1, {kFloats}, 1, kFloats}, ParseClipValue, RunClipByValue));
}

}  // namespace cohort
