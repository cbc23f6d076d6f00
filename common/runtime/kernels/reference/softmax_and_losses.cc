// Softmax and Keras's cross-entropies, whose formulas are in common/program/cohort_ops.h. A line
// holds the numbers of all classes for one example. The functions on lines take one line in double
// and return the line's loss or gradient.

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/loss_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// Calls line(index of the first element, stride) for each line of elements along the axis.
template <typename Line>
void ForEachLine(const AxisView& view, Line&& line) {
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t inner = 0; inner < view.inner; ++inner) {
      line(outer * view.size * view.inner + inner, view.inner);
    }
  }
}

template <bool kLog>
absl::Status RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  const AxisView view = ViewAroundAxis(x.shape(), axis);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* in = x.data<T>();
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    ForEachLine(view, [&](int64_t first, int64_t stride) {
      // Subtracting the largest element keeps exp from overflowing.
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < view.size; ++i) {
        largest = std::max(largest, static_cast<double>(in[first + i * stride]));
      }
      double sum = 0;
      for (int64_t i = 0; i < view.size; ++i) sum += std::exp(in[first + i * stride] - largest);
      for (int64_t i = 0; i < view.size; ++i) {
        const double shifted = in[first + i * stride] - largest;
        out[first + i * stride] =
            static_cast<T>(kLog ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
    return absl::OkStatus();
  });
}

template <bool kLog>
absl::Status RunSoftmaxGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& y = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, y.shape().rank()));
  const AxisView view = ViewAroundAxis(y.shape(), axis);
  return DispatchFloats(y, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* grad = dy.data<T>();
    const T* result = y.data<T>();
    T* out = context.Output(0, y.dtype(), y.shape()).template mutable_data<T>();
    ForEachLine(view, [&](int64_t first, int64_t stride) {
      // The gradient of Softmax is dx = y (dy - sum of dy y), that of LogSoftmax dx = dy - exp(y)
      // sum of dy.
      double sum = 0;
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = first + i * stride;
        sum += static_cast<double>(grad[at]) * (kLog ? 1.0 : static_cast<double>(result[at]));
      }
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = first + i * stride;
        out[at] = static_cast<T>(kLog ? grad[at] - std::exp(static_cast<double>(result[at])) * sum
                                      : result[at] * (grad[at] - sum));
      }
    });
    return absl::OkStatus();
  });
}

void AddSoftmax(KernelRegistry& registry) {
  using Parameters = AxisParameters;
  registry.Add("", "Softmax",
               BoundKernel<Parameters>({1, 1, {kFloats}}, ParseLastAxis, RunSoftmax<false>));
  registry.Add("", "LogSoftmax",
               BoundKernel<Parameters>({1, 1, {kFloats}}, ParseLastAxis, RunSoftmax<true>));
  registry.Add("cohort", "SoftmaxGrad",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseLastAxis, RunSoftmaxGrad<false>));
  registry.Add("cohort", "LogSoftmaxGrad",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseLastAxis, RunSoftmaxGrad<true>));
}

using Line = std::vector<double>;

constexpr double kLow = kKerasEpsilon;
constexpr double kHigh = 1 - kKerasEpsilon;

double Sum(const Line& line) {
  double sum = 0;
  for (const double value : line) sum += value;
  return sum;
}

// Returns log(sum of exp(x)) of one line. Subtracting the largest value keeps exp from overflowing.
double LogSumExp(const Line& line) {
  const double largest = *std::max_element(line.begin(), line.end());
  double sum = 0;
  for (const double value : line) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double DenseLoss(const Line& truth, const Line& prediction, bool from_logits) {
  double loss = 0;
  const double shift = from_logits ? LogSumExp(prediction) : 0;
  const double sum = from_logits ? 1 : Sum(prediction);
  for (size_t i = 0; i < truth.size(); ++i) {
    const double log_prob = from_logits ? prediction[i] - shift
                                        : std::log(std::clamp(prediction[i] / sum, kLow, kHigh));
    loss -= truth[i] * log_prob;
  }
  return loss;
}

Line DenseGrad(const Line& truth, const Line& prediction, bool from_logits) {
  Line grad(truth.size());
  if (from_logits) {
    const double shift = LogSumExp(prediction);
    const double total = Sum(truth);
    for (size_t i = 0; i < grad.size(); ++i) {
      grad[i] = std::exp(prediction[i] - shift) * total - truth[i];
    }
    return grad;
  }
  // A clipped probability has no gradient of its own; `weighted` is the part of the gradient that
  // comes through the sum by which probabilities are divided.
  const double sum = Sum(prediction);
  double weighted = 0;
  for (size_t i = 0; i < grad.size(); ++i) {
    const double q = prediction[i] / sum;
    const bool inside = q >= kLow && q <= kHigh;
    grad[i] = inside ? -truth[i] / q : 0;
    weighted -= inside ? truth[i] : 0;
  }
  for (double& value : grad) value = (value - weighted) / sum;
  return grad;
}

// Keras clips the probabilities first, and then normalises them by the softmax of their logarithms.
double SparseLoss(int64_t label, Line prediction, bool from_logits) {
  if (!from_logits) {
    for (double& value : prediction) value = std::log(std::clamp(value, kLow, kHigh));
  }
  return LogSumExp(prediction) - prediction[static_cast<size_t>(label)];
}

Line SparseGrad(int64_t label, const Line& prediction, bool from_logits) {
  Line grad(prediction.size());
  if (from_logits) {
    const double shift = LogSumExp(prediction);
    for (size_t i = 0; i < grad.size(); ++i) grad[i] = std::exp(prediction[i] - shift);
    grad[static_cast<size_t>(label)] -= 1;
    return grad;
  }
  // The softmax of the clipped probabilities' logarithms is each clipped probability divided by
  // their sum.
  double sum = 0;
  for (const double value : prediction) sum += std::clamp(value, kLow, kHigh);
  for (size_t i = 0; i < grad.size(); ++i) {
    const double p = std::clamp(prediction[i], kLow, kHigh);
    const bool inside = prediction[i] >= kLow && prediction[i] <= kHigh;
    const double target = static_cast<int64_t>(i) == label ? 1 : 0;
    grad[i] = inside ? (p / sum - target) / p : 0;
  }
  return grad;
}

// Returns a copy, in double and in contiguous memory, of one line of the tensor.
template <typename T>
Line Load(const Tensor& tensor, const AxisView& view, int64_t line) {
  const int64_t first = line / view.inner * view.size * view.inner + line % view.inner;
  Line values(static_cast<size_t>(view.size));
  for (int64_t i = 0; i < view.size; ++i) {
    values[static_cast<size_t>(i)] = static_cast<double>(tensor.data<T>()[first + i * view.inner]);
  }
  return values;
}

template <typename T>
void Store(const Line& values, double scale, const AxisView& view, int64_t line, T* out) {
  const int64_t first = line / view.inner * view.size * view.inner + line % view.inner;
  for (int64_t i = 0; i < view.size; ++i) {
    out[first + i * view.inner] = static_cast<T>(scale * values[static_cast<size_t>(i)]);
  }
}

absl::Status RunDense(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor& truth = context.input(0);
  const Tensor& prediction = context.input(1);
  RETURN_IF_ERROR(CheckDenseLabels(truth, prediction));
  ASSIGN_OR_RETURN(const LossView view, ViewOfLoss(prediction, parameters.axis));
  return DispatchFloats(prediction, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, prediction.dtype(), view.loss).template mutable_data<T>();
    for (int64_t line = 0; line < view.loss.num_elements(); ++line) {
      out[line] =
          static_cast<T>(DenseLoss(Load<T>(truth, view.view, line),
                                   Load<T>(prediction, view.view, line), parameters.from_logits));
    }
    return absl::OkStatus();
  });
}

absl::Status RunDenseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor& dloss = context.input(0);
  const Tensor& truth = context.input(1);
  const Tensor& prediction = context.input(2);
  RETURN_IF_ERROR(CheckDenseLabels(truth, prediction));
  ASSIGN_OR_RETURN(const LossView view, ViewOfLoss(prediction, parameters.axis));
  RETURN_IF_ERROR(CheckLossGradient(dloss, prediction, view));
  return DispatchFloats(prediction, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, prediction.dtype(), prediction.shape()).template mutable_data<T>();
    for (int64_t line = 0; line < view.loss.num_elements(); ++line) {
      const Line grad = DenseGrad(Load<T>(truth, view.view, line),
                                  Load<T>(prediction, view.view, line), parameters.from_logits);
      Store(grad, static_cast<double>(dloss.data<T>()[line]), view.view, line, out);
    }
    return absl::OkStatus();
  });
}

absl::Status RunSparse(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor& prediction = context.input(1);
  ASSIGN_OR_RETURN(const LossView view, ViewOfLoss(prediction, -1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadSparseLabels(context.input(0), view));
  return DispatchFloats(prediction, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, prediction.dtype(), view.loss).template mutable_data<T>();
    for (size_t line = 0; line < labels.size(); ++line) {
      out[line] = static_cast<T>(
          SparseLoss(labels[line], Load<T>(prediction, view.view, static_cast<int64_t>(line)),
                     parameters.from_logits));
    }
    return absl::OkStatus();
  });
}

absl::Status RunSparseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor& dloss = context.input(0);
  const Tensor& prediction = context.input(2);
  ASSIGN_OR_RETURN(const LossView view, ViewOfLoss(prediction, -1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadSparseLabels(context.input(1), view));
  RETURN_IF_ERROR(CheckLossGradient(dloss, prediction, view));
  return DispatchFloats(prediction, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, prediction.dtype(), prediction.shape()).template mutable_data<T>();
    for (size_t i = 0; i < labels.size(); ++i) {
      const int64_t line = static_cast<int64_t>(i);
      const Line grad =
          SparseGrad(labels[i], Load<T>(prediction, view.view, line), parameters.from_logits);
      Store(grad, static_cast<double>(dloss.data<T>()[line]), view.view, line, out);
    }
    return absl::OkStatus();
  });
}

void AddKerasLosses(KernelRegistry& registry) {
  using Parameters = KerasLossParameters;
  registry.Add("cohort", "CategoricalCrossentropy",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseKerasLoss, RunDense));
  registry.Add("cohort", "CategoricalCrossentropyGrad",
               BoundKernel<Parameters>({3, 3, {kFloats}}, ParseKerasLoss, RunDenseGrad));
  registry.Add("cohort", "SparseCategoricalCrossentropy",
               BoundKernel<Parameters>({2, 2, {kLabels, kFloats}}, ParseKerasLoss, RunSparse));
  registry.Add(
      "cohort", "SparseCategoricalCrossentropyGrad",
      BoundKernel<Parameters>({3, 3, {kFloats, kLabels, kFloats}}, ParseKerasLoss, RunSparseGrad));
}

}  // namespace

void RegisterReferenceSoftmaxAndLosses(KernelRegistry& registry) {
  AddSoftmax(registry);
  AddKerasLosses(registry);
}

}  // namespace cohort
