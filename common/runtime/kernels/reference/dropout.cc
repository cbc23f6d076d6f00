#include <cstring>

#include "common/runtime/kernels/dropout_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

absl::Status RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 1));
  bool* mask = nullptr;
  if (context.output_wanted(1)) {
    mask = context.Output(1, DType::kBool, x.shape()).mutable_data<bool>();
  }
  RETURN_IF_ERROR(RequireTypeIn(x, kFloats));
  // In inference nothing is dropped: the mask is all true, and y is x.
  if (!mode.training) {
    if (mask != nullptr) std::memset(mask, 1, static_cast<size_t>(x.num_elements()));
    if (context.output_wanted(0)) context.Forward(0, x);
    return absl::OkStatus();
  }
  const RandomStream stream = DropoutStream(parameters, context.run());
  const uint64_t first = FirstElement(context.run(), x.shape());
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.output_wanted(0)
                 ? context.Output(0, x.dtype(), x.shape()).template mutable_data<T>()
                 : nullptr;
    // An element's number in the global batch decides, so any split of the batch gives the same
    // mask.
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const bool keep = DropoutKeeps(stream, first + static_cast<uint64_t>(i), mode.Threshold());
      if (mask != nullptr) mask[i] = keep;
      if (out != nullptr) out[i] = static_cast<T>(keep ? x.data<T>()[i] * mode.Scale() : 0);
    }
    return absl::OkStatus();
  });
}

absl::Status RunDropoutGrad(KernelContext& context) {
  const Tensor& dy = context.input(0);
  const Tensor& mask = context.input(1);
  RETURN_IF_ERROR(RequireType(mask, DType::kBool));
  RETURN_IF_ERROR(RequireSameShape(dy, mask));
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 2));
  RETURN_IF_ERROR(RequireTypeIn(dy, kFloats));
  if (!mode.training) {
    context.Forward(0, dy);
    return absl::OkStatus();
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, dy.dtype(), dy.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      out[i] = static_cast<T>(mask.data<bool>()[i] ? dy.data<T>()[i] * mode.Scale() : 0);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceDropout(KernelRegistry& registry) {
  registry.Add("", "Dropout",
               BoundKernel<DropoutParameters>({1, 3, {kFloats, kNumbers, kBools}, 2}, ParseDropout,
                                              RunDropout));
  registry.Add("cohort", "DropoutGrad",
               PlainKernel({2, 4, {kFloats, kBools, kNumbers, kBools}}, RunDropoutGrad));
}

}  // namespace cohort
