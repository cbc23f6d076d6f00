#include <algorithm>
#include <cmath>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/loss_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The labels [N, d1, ...] of scores [N, C, d1, ...], and the weight of each label.
struct Labelled {
  AxisView view;
  std::vector<int64_t> labels;
  std::vector<double> weights;  // one weight for each label; 0 if the label is ignored
  double total_weight = 0;

  // Returns the index in the scores of the score that example number `label` has for the class of
  // its label.
  int64_t At(size_t label) const {
    const int64_t outer = static_cast<int64_t>(label) / view.inner;
    const int64_t inner = static_cast<int64_t>(label) % view.inner;
    return (outer * view.size + labels[label]) * view.inner + inner;
  }
};

absl::StatusOr<Labelled> ReadLabelled(const Tensor& scores, const Tensor& labels,
                                      const Tensor& weights, const OnnxLossParameters& parameters) {
  RETURN_IF_ERROR(RequireTypeIn(scores, kFloats));  // scores and class weights are float or double
  if (scores.shape().rank() < 2 || labels.shape() != WithoutAxis(scores.shape(), 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels ", labels.TypeString(), " do not fit scores ", scores.TypeString()));
  }
  Labelled result;
  result.view = ViewAroundAxis(scores.shape(), 1);
  const LabelRange range = {result.view.size, parameters.has_ignore_index, parameters.ignore_index};
  ASSIGN_OR_RETURN(result.labels, ReadLabels(labels, range));
  if (weights.has_value()) {
    RETURN_IF_ERROR(RequireSameType(weights, scores));
    if (weights.shape() != Shape{result.view.size}) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights ", weights.TypeString(), " for ", result.view.size, " classes"));
    }
  }
  result.weights.assign(result.labels.size(), 1.0);
  for (size_t i = 0; i < result.labels.size(); ++i) {
    const int64_t label = result.labels[i];
    if (parameters.has_ignore_index && label == parameters.ignore_index) {
      result.weights[i] = 0;
      result.labels[i] = 0;  // any valid class will do, since an ignored label has the weight 0
    } else if (weights.has_value()) {
      result.weights[i] = weights.dtype() == DType::kFloat32
                              ? static_cast<double>(weights.data<float>()[label])
                              : weights.data<double>()[label];
    }
    result.total_weight += result.weights[i];
  }
  return result;
}

template <typename T>
// Returns the logarithm of the softmax of the scores along the class axis.
std::vector<double> LogSoftmax(const T* scores, const AxisView& view) {
  std::vector<double> log_prob(static_cast<size_t>(view.outer * view.size * view.inner));
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t inner = 0; inner < view.inner; ++inner) {
      const int64_t first = outer * view.size * view.inner + inner;
      // Subtracting the largest score keeps exp from overflowing.
      double largest = static_cast<double>(scores[first]);
      for (int64_t i = 1; i < view.size; ++i) {
        largest = std::max(largest, static_cast<double>(scores[first + i * view.inner]));
      }
      double sum = 0;
      for (int64_t i = 0; i < view.size; ++i) {
        sum += std::exp(scores[first + i * view.inner] - largest);
      }
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = first + i * view.inner;
        log_prob[static_cast<size_t>(at)] = scores[at] - largest - std::log(sum);
      }
    }
  }
  return log_prob;
}

// Writes the weighted loss of each label, or the sum or weighted mean of all losses.
template <typename T>
void WriteLoss(KernelContext& context, const Labelled& labelled,
               const std::vector<double>& log_prob, const OnnxLossParameters& parameters) {
  const bool none = parameters.reduction == Reduction::kNone;
  T* out = context.Output(0, DTypeOf<T>::value, none ? context.input(1).shape() : Shape{})
               .template mutable_data<T>();
  double sum = 0;
  for (size_t i = 0; i < labelled.labels.size(); ++i) {
    const double weight = labelled.weights[i];
    const double loss = weight == 0 ? 0 : -weight * log_prob[static_cast<size_t>(labelled.At(i))];
    if (none) out[i] = static_cast<T>(loss);
    sum += loss;
  }
  // ONNX's mean divides by the sum of weights, not by the number of labels.
  if (parameters.reduction == Reduction::kMean) sum /= labelled.total_weight;
  if (!none) *out = static_cast<T>(sum);
}

absl::Status RunLoss(KernelContext& context, const OnnxLossParameters& parameters) {
  const Tensor& scores = context.input(0);
  ASSIGN_OR_RETURN(const Labelled labelled,
                   ReadLabelled(scores, context.input(1), context.input(2), parameters));
  return DispatchFloats(scores, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (labelled.view.size == 0) return absl::InvalidArgumentError("scores have no classes");
    const std::vector<double> log_prob = LogSoftmax(scores.data<T>(), labelled.view);
    if (context.output_wanted(0)) WriteLoss<T>(context, labelled, log_prob, parameters);
    if (context.output_wanted(1)) {
      T* out = context.Output(1, scores.dtype(), scores.shape()).template mutable_data<T>();
      for (const double value : log_prob) *out++ = static_cast<T>(value);
    }
    return absl::OkStatus();
  });
}

absl::Status RunGrad(KernelContext& context, const OnnxLossParameters& parameters) {
  const Tensor& dloss = context.input(0);
  const Tensor& log_prob = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dloss, log_prob));
  ASSIGN_OR_RETURN(const Labelled labelled,
                   ReadLabelled(log_prob, context.input(2), context.input(3), parameters));
  const bool none = parameters.reduction == Reduction::kNone;
  if (none ? dloss.shape() != context.input(2).shape() : dloss.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dloss.TypeString(), " does not fit the loss"));
  }
  return DispatchFloats(log_prob, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* log_data = log_prob.data<T>();
    const T* grad = dloss.data<T>();
    T* out = context.Output(0, log_prob.dtype(), log_prob.shape()).template mutable_data<T>();
    const AxisView& view = labelled.view;
    for (size_t i = 0; i < labelled.labels.size(); ++i) {
      // The gradient of -log softmax is the softmax, minus 1 at the class of the label.
      double scale = static_cast<double>(grad[none ? i : 0]) * labelled.weights[i];
      if (parameters.reduction == Reduction::kMean) scale /= labelled.total_weight;
      const int64_t own = labelled.At(i);
      const int64_t first = own - labelled.labels[i] * view.inner;
      for (int64_t c = 0; c < view.size; ++c) {
        const int64_t at = first + c * view.inner;
        out[at] = static_cast<T>(
            scale * (std::exp(static_cast<double>(log_data[at])) - (at == own ? 1 : 0)));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceOnnxLoss(KernelRegistry& registry) {
  registry.Add("", "SoftmaxCrossEntropyLoss",
               BoundKernel<OnnxLossParameters>({2, 3, {kFloats, kLabels, kFloats}, 2},
                                               ParseOnnxLoss, RunLoss));
  registry.Add("cohort", "SoftmaxCrossEntropyGrad",
               BoundKernel<OnnxLossParameters>({3, 4, {kFloats, kFloats, kLabels, kFloats}},
                                               ParseOnnxLoss, RunGrad));
}

}  // namespace cohort
