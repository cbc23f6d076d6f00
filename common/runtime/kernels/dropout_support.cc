#include "common/runtime/kernels/dropout_support.h"

#include "common/runtime/kernel/run_context.h"

namespace cohort {

DropoutParameters ParseDropout(AttributeReader& reader) {
  DropoutParameters parameters;
  const onnx::NodeProto& node = reader.node();
  // The node's name selects the stream of random numbers. A node without a name is identified by
  // the name of its output.
  parameters.name = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  parameters.has_seed = reader.Has("seed");
  parameters.seed = reader.Int("seed", 0);
  return parameters;
}

absl::StatusOr<DropoutMode> ReadDropoutMode(const KernelContext& context, int first) {
  DropoutMode mode;
  if (const Tensor& ratio = context.input(first); ratio.has_value()) {
    ASSIGN_OR_RETURN(mode.ratio, ScalarValue(ratio));
  }
  if (const Tensor& training = context.input(first + 1); training.has_value()) {
    RETURN_IF_ERROR(RequireType(training, DType::kBool));
    if (training.num_elements() != 1) {
      return absl::InvalidArgumentError("training_mode is not a scalar");
    }
    mode.training = *training.data<bool>();
  }
  // The comparison is written so that a ratio of NaN is refused, too.
  if (!(mode.ratio >= 0 && mode.ratio < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("ratio ", mode.ratio, " is not in [0, 1)"));
  }
  return mode;
}

RandomStream DropoutStream(const DropoutParameters& parameters, const RunContext& run) {
  const RandomStream stream = RandomStream(run.seed, parameters.name).Child(run.step);
  return parameters.has_seed ? stream.Child(static_cast<uint64_t>(parameters.seed)) : stream;
}

uint64_t FirstElement(const RunContext& run, const Shape& shape) {
  return static_cast<uint64_t>(run.first_example) * static_cast<uint64_t>(shape.row_elements());
}

}  // namespace cohort
