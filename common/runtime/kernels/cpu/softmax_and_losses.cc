// Softmax and Keras's cross-entropies. Each line of elements along one axis of a tensor is computed
// by itself.

#include <algorithm>
#include <cmath>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/loss_support.h"

namespace cohort {

namespace {

// Returns whether the axis is the tensor's last one, along which lines are contiguous.
bool IsLastAxis(const Tensor& tensor, int64_t axis) {
  const int rank = tensor.shape().rank();
  return rank >= 1 && (axis == -1 || axis == rank - 1) && tensor.num_elements() > 0;
}

Lines OutputLines(const Tensor& like, Tensor& output) {
  const int64_t size = like.shape().dim(like.shape().rank() - 1);
  return {output.mutable_data<float>(), like.num_elements() / size, size};
}

template <void (*kLoop)(const float*, const Lines&)>
bool RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor x = context.input(0);
  if (!IsFloat32(x) || !IsLastAxis(x, parameters.axis)) return false;
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  kLoop(x.data<float>(), OutputLines(x, y));
  return true;
}

template <void (*kLoop)(const float*, const float*, const Lines&)>
bool RunGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  if (!AreFloat32Twins(dy, y) || !IsLastAxis(y, parameters.axis)) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  kLoop(dy.data<float>(), y.data<float>(), OutputLines(y, dx));
  return true;
}

void AddSoftmax(const CpuRegistration& registration) {
  registration.Add("", "Softmax", ParseLastAxis, RunSoftmax<SoftmaxLines>);
  registration.Add("", "LogSoftmax", ParseLastAxis, RunSoftmax<LogSoftmaxLines>);
  registration.Add("cohort", "SoftmaxGrad", ParseLastAxis, RunGrad<SoftmaxGradLines>);
  registration.Add("cohort", "LogSoftmaxGrad", ParseLastAxis, RunGrad<LogSoftmaxGradLines>);
}

constexpr double kLow = kKerasEpsilon;
constexpr double kHigh = 1 - kKerasEpsilon;

struct Predictions {
  const float* data;
  size_t classes;
};

double SumOf(const Predictions& line) {
  double sum = 0;
  for (size_t i = 0; i < line.classes; ++i) sum += static_cast<double>(line.data[i]);
  return sum;
}

double Clamped(float prediction) { return std::clamp<double>(prediction, kLow, kHigh); }
bool IsInside(double probability) { return probability >= kLow && probability <= kHigh; }

// Returns log(sum of exp(x)) of one line. Subtracting the largest value keeps exp from overflowing.
double LogSumExp(const Predictions& line) {
  const double largest = *std::max_element(line.data, line.data + line.classes);
  double sum = 0;
  for (size_t i = 0; i < line.classes; ++i) sum += std::exp(line.data[i] - largest);
  return largest + std::log(sum);
}

double DenseLoss(const float* truth, const Predictions& line, bool from_logits) {
  double loss = 0;
  if (from_logits) {
    const double shift = LogSumExp(line);
    for (size_t i = 0; i < line.classes; ++i) loss -= truth[i] * (line.data[i] - shift);
    return loss;
  }
  const double sum = SumOf(line);
  // If a prediction is NaN, the loss is NaN. The loop below could miss the NaN, because it skips
  // classes whose true probability is 0.
  if (std::isnan(sum)) return sum;
  for (size_t i = 0; i < line.classes; ++i) {
    if (truth[i] == 0) continue;
    loss -= truth[i] * std::log(std::clamp(line.data[i] / sum, kLow, kHigh));
  }
  return loss;
}

void DenseGrad(const float* truth, const Predictions& line, bool from_logits, double scale,
               float* out) {
  if (from_logits) {
    const double shift = LogSumExp(line);
    const double total = SumOf({truth, line.classes});
    for (size_t i = 0; i < line.classes; ++i) {
      out[i] = static_cast<float>(scale * (std::exp(line.data[i] - shift) * total - truth[i]));
    }
    return;
  }
  // A clipped probability has no gradient of its own; `weighted` is the part of the gradient that
  // comes through the sum by which probabilities are divided.
  const double sum = SumOf(line);
  double weighted = 0;
  for (size_t i = 0; i < line.classes; ++i) {
    if (IsInside(line.data[i] / sum)) weighted -= truth[i];
  }
  for (size_t i = 0; i < line.classes; ++i) {
    const double q = line.data[i] / sum;
    const double grad = IsInside(q) ? -truth[i] / q : 0;
    out[i] = static_cast<float>(scale * ((grad - weighted) / sum));
  }
}

double SparseLoss(int64_t label, const Predictions& line, bool from_logits) {
  const float chosen = line.data[label];
  if (from_logits) return LogSumExp(line) - chosen;
  // Keras clips the probabilities and then normalises them by their sum.
  double sum = 0;
  for (size_t i = 0; i < line.classes; ++i) sum += Clamped(line.data[i]);
  return std::log(sum) - std::log(Clamped(chosen));
}

void SparseGrad(int64_t label, const Predictions& line, bool from_logits, double scale,
                float* out) {
  const auto target = [&](size_t i) { return static_cast<int64_t>(i) == label ? 1.0 : 0.0; };
  if (from_logits) {
    const double shift = LogSumExp(line);
    for (size_t i = 0; i < line.classes; ++i) {
      out[i] = static_cast<float>(scale * (std::exp(line.data[i] - shift) - target(i)));
    }
    return;
  }
  double sum = 0;
  for (size_t i = 0; i < line.classes; ++i) sum += Clamped(line.data[i]);
  for (size_t i = 0; i < line.classes; ++i) {
    const double p = Clamped(line.data[i]);
    const double grad = IsInside(line.data[i]) ? (p / sum - target(i)) / p : 0;
    out[i] = static_cast<float>(scale * grad);
  }
}

// The predictions seen as lines, one for each example, along the last axis. `fast` is false if the
// predictions are not float32 or their class axis is not the last.
struct LossLines {
  bool fast = false;
  size_t classes = 0;
  Shape loss;
};

LossLines LinesOf(const Tensor& prediction, int64_t axis) {
  LossLines lines;
  const int rank = prediction.shape().rank();
  if (!IsFloat32(prediction) || rank < 1 || (axis != -1 && axis != rank - 1)) return lines;
  lines.classes = static_cast<size_t>(prediction.shape().dim(rank - 1));
  // Each line of predictions has one loss.
  lines.loss = WithoutAxis(prediction.shape(), rank - 1);
  lines.fast = lines.classes > 0;
  return lines;
}

bool RunDense(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor truth = context.input(0), prediction = context.input(1);
  const LossLines lines = LinesOf(prediction, parameters.axis);
  if (!lines.fast || !AreFloat32Twins(truth, prediction)) return false;
  float* const out = context.Output(0, DType::kFloat32, lines.loss).mutable_data<float>();
  for (size_t i = 0; i < static_cast<size_t>(lines.loss.num_elements()); ++i) {
    const size_t first = i * lines.classes;
    out[i] = static_cast<float>(DenseLoss(truth.data<float>() + first,
                                          {prediction.data<float>() + first, lines.classes},
                                          parameters.from_logits));
  }
  return true;
}

bool RunDenseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor dloss = context.input(0), truth = context.input(1), prediction = context.input(2);
  const LossLines lines = LinesOf(prediction, parameters.axis);
  if (!lines.fast || !AreFloat32Twins(truth, prediction)) return false;
  if (!IsFloat32(dloss) || dloss.shape() != lines.loss) return false;
  float* const out = context.Output(0, DType::kFloat32, prediction.shape()).mutable_data<float>();
  for (size_t i = 0; i < static_cast<size_t>(lines.loss.num_elements()); ++i) {
    const size_t first = i * lines.classes;
    DenseGrad(truth.data<float>() + first, {prediction.data<float>() + first, lines.classes},
              parameters.from_logits, dloss.data<float>()[i], out + first);
  }
  return true;
}

bool RunSparse(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor truth = context.input(0), prediction = context.input(1);
  const LossLines lines = LinesOf(prediction, -1);
  if (!lines.fast || truth.shape() != lines.loss) return false;
  const auto labels = ReadLabels(truth, {static_cast<int64_t>(lines.classes)});
  // If a label is out of range, the reference kernel runs and reports the label.
  if (!labels.ok()) return false;
  float* const out = context.Output(0, DType::kFloat32, lines.loss).mutable_data<float>();
  for (size_t i = 0; i < labels->size(); ++i) {
    out[i] = static_cast<float>(
        SparseLoss((*labels)[i], {prediction.data<float>() + i * lines.classes, lines.classes},
                   parameters.from_logits));
  }
  return true;
}

bool RunSparseGrad(KernelContext& context, const KerasLossParameters& parameters) {
  const Tensor dloss = context.input(0), truth = context.input(1), prediction = context.input(2);
  const LossLines lines = LinesOf(prediction, -1);
  if (!lines.fast || truth.shape() != lines.loss) return false;
  if (!IsFloat32(dloss) || dloss.shape() != lines.loss) return false;
  const auto labels = ReadLabels(truth, {static_cast<int64_t>(lines.classes)});
  if (!labels.ok()) return false;
  float* const out = context.Output(0, DType::kFloat32, prediction.shape()).mutable_data<float>();
  for (size_t i = 0; i < labels->size(); ++i) {
    const size_t first = i * lines.classes;
    SparseGrad((*labels)[i], {prediction.data<float>() + first, lines.classes},
               parameters.from_logits, dloss.data<float>()[i], out + first);
  }
  return true;
}

void AddLosses(const CpuRegistration& registration) {
  registration.Add("cohort", "CategoricalCrossentropy", ParseKerasLoss, RunDense);
  registration.Add("cohort", "CategoricalCrossentropyGrad", ParseKerasLoss, RunDenseGrad);
  registration.Add("cohort", "SparseCategoricalCrossentropy", ParseKerasLoss, RunSparse);
  registration.Add("cohort", "SparseCategoricalCrossentropyGrad", ParseKerasLoss, RunSparseGrad);
}

}  // namespace

void RegisterCpuSoftmaxAndLosses(const CpuRegistration& registration) {
  AddSoftmax(registration);
  AddLosses(registration);
}

}  // namespace cohort
