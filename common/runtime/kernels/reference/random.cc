// RandomNormalLike. Its numbers depend on the seed of the job, the name of the node, the step and an
// element's number in the global batch, as the mask of Dropout does (dropout_support.h).

#include <bit>

#include "common/runtime/kernels/dropout_support.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

struct NormalParameters {
  DropoutParameters stream;
  double mean = 0;
  double scale = 1;
};

// The element type is that of the input: an attribute `dtype` is refused.
NormalParameters ParseNormal(AttributeReader& reader) {
  NormalParameters parameters;
  const onnx::NodeProto& node = reader.node();
  parameters.stream.name =
      !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  parameters.stream.has_seed = reader.Has("seed");
  // Unlike Dropout's, this seed is a float.
  parameters.stream.seed = std::bit_cast<int32_t>(reader.Float("seed", 0));
  parameters.mean = static_cast<double>(reader.Float("mean", 0));
  parameters.scale = static_cast<double>(reader.Float("scale", 1));
  return parameters;
}

absl::Status RunRandomNormalLike(KernelContext& context, const NormalParameters& parameters) {
  const Tensor& x = context.input(0);
  RETURN_IF_ERROR(RequireTypeIn(x, kFloats));
  const RandomStream stream = DropoutStream(parameters.stream, context.run());
  const uint64_t first = FirstElement(context.run(), x.shape());
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double normal = static_cast<double>(stream.Normal(first + static_cast<uint64_t>(i)));
      out[i] = static_cast<T>(parameters.mean + parameters.scale * normal);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceRandom(KernelRegistry& registry) {
  registry.Add("", "RandomNormalLike",
               BoundKernel<NormalParameters>({1, 1, {kFloats}}, ParseNormal, RunRandomNormalLike));
}

}  // namespace cohort
