// The loss of connectionist temporal classification, in logarithms and in double. The states of an
// example are its labels with a blank before, between and behind them. A path stays in its state,
// or goes to the next one, or leaves out a blank between two labels that differ.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/loss_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
constexpr int64_t kBlank = 0;  // also the padding behind the labels

double LogAdd(double a, double b) {
  const double larger = std::max(a, b);
  if (larger == kImpossible) return kImpossible;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// A matrix of logarithms by step and state.
struct Lattice {
  Lattice(size_t steps, size_t states) : states(states), values(steps * states, kImpossible) {}
  double& At(size_t step, size_t state) { return values[step * states + state]; }

  size_t states;
  std::vector<double> values;
};

// One example: its states, and the logarithms of the probabilities by step and class. Lives while
// the example is computed.
class Example {
 public:
  Example(std::vector<int64_t> states, std::vector<double> log_probs, size_t classes)
      : states_(std::move(states)),
        log_probs_(std::move(log_probs)),
        classes_(classes),
        steps_(log_probs_.size() / classes),
        forward_(steps_, states_.size()) {
    FillForward();
  }

  // Returns the logarithm of the probability of all paths.
  double LogProbability() {
    if (steps_ == 0) return states_.size() == 1 ? 0 : kImpossible;
    const size_t last = states_.size() - 1;
    const double at_blank = forward_.At(steps_ - 1, last);
    return last == 0 ? at_blank : LogAdd(at_blank, forward_.At(steps_ - 1, last - 1));
  }

  // Adds factor * (probability - share of the paths) to the gradient of each logit. An example
  // whose labels no path gives has an infinite loss and no gradient.
  void AddGradient(double factor, std::vector<double>& gradient) {
    const double all = LogProbability();
    if (all == kImpossible) return;
    for (size_t i = 0; i < log_probs_.size(); ++i) gradient[i] += factor * std::exp(log_probs_[i]);
    // What is behind a step, without the step itself.
    std::vector<double> behind(states_.size(), kImpossible);
    behind.back() = 0;
    if (states_.size() > 1) behind[states_.size() - 2] = 0;
    for (size_t step = steps_; step-- > 0;) {
      for (size_t state = 0; state < states_.size(); ++state) {
        const double share = forward_.At(step, state) + behind[state] - all;
        gradient[step * classes_ + Class(state)] -= factor * std::exp(share);
      }
      if (step > 0) behind = Before(step, behind);
    }
  }

 private:
  size_t Class(size_t state) const { return static_cast<size_t>(states_[state]); }
  double LogProb(size_t step, size_t state) const {
    return log_probs_[step * classes_ + Class(state)];
  }
  // Returns whether a path may come to the state from two states before it.
  bool Skips(size_t state) const {
    return state >= 2 && states_[state] != kBlank && states_[state] != states_[state - 2];
  }

  void FillForward() {
    if (steps_ == 0) return;
    forward_.At(0, 0) = LogProb(0, 0);
    if (states_.size() > 1) forward_.At(0, 1) = LogProb(0, 1);
    for (size_t step = 1; step < steps_; ++step) {
      for (size_t state = 0; state < states_.size(); ++state) {
        double sum = forward_.At(step - 1, state);
        if (state >= 1) sum = LogAdd(sum, forward_.At(step - 1, state - 1));
        if (Skips(state)) sum = LogAdd(sum, forward_.At(step - 1, state - 2));
        forward_.At(step, state) = sum + LogProb(step, state);
      }
    }
  }

  // Returns what is behind step - 1, from what is behind `step`.
  std::vector<double> Before(size_t step, const std::vector<double>& behind) const {
    std::vector<double> before(states_.size(), kImpossible);
    for (size_t state = 0; state < states_.size(); ++state) {
      const double here = behind[state] + LogProb(step, state);
      before[state] = LogAdd(before[state], here);
      if (state >= 1) before[state - 1] = LogAdd(before[state - 1], here);
      if (Skips(state)) before[state - 2] = LogAdd(before[state - 2], here);
    }
    return before;
  }

  const std::vector<int64_t> states_;
  const std::vector<double> log_probs_;
  const size_t classes_;
  const size_t steps_;
  Lattice forward_;
};

// Checks the shapes of labels [N,L] and logits [N,T,C].
absl::Status CheckShapes(const Tensor& labels, const Tensor& logits) {
  RETURN_IF_ERROR(RequireRank(labels, 2));
  RETURN_IF_ERROR(RequireRank(logits, 3));
  if (labels.shape().dim(0) == logits.shape().dim(0) && logits.shape().dim(2) > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("labels ", labels.TypeString(),
                                                 " do not fit logits ", logits.TypeString(),
                                                 ": they are [N,L] and [N,T,C]"));
}

template <typename T>
Example MakeExample(const std::vector<int64_t>& labels, const Tensor& logits, int64_t row) {
  const auto width = static_cast<size_t>(labels.size()) /
                     static_cast<size_t>(std::max<int64_t>(logits.shape().dim(0), 1));
  const auto first = labels.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * width);
  const auto last = first + static_cast<std::ptrdiff_t>(width);
  // As in Keras, there are as many labels as there are numbers that are not padding.
  const auto count = width - static_cast<size_t>(std::count(first, last, kBlank));
  std::vector<int64_t> states = {kBlank};
  for (size_t i = 0; i < count; ++i) {
    states.push_back(first[static_cast<std::ptrdiff_t>(i)]);
    states.push_back(kBlank);
  }
  const auto classes = static_cast<size_t>(logits.shape().dim(2));
  const auto size = static_cast<size_t>(logits.shape().dim(1)) * classes;
  const T* const from = logits.data<T>() + static_cast<size_t>(row) * size;
  std::vector<double> log_probs(from, from + size);
  for (size_t begin = 0; begin < size; begin += classes) {
    double* const of_step = log_probs.data() + begin;
    const double largest = *std::max_element(of_step, of_step + classes);
    double sum = 0;
    for (size_t i = 0; i < classes; ++i) sum += std::exp(of_step[i] - largest);
    for (size_t i = 0; i < classes; ++i) of_step[i] -= largest + std::log(sum);
  }
  return Example(std::move(states), std::move(log_probs), classes);
}

absl::Status RunCtc(KernelContext& context) {
  const Tensor& logits = context.input(1);
  RETURN_IF_ERROR(CheckShapes(context.input(0), logits));
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels,
                   ReadLabels(context.input(0), {logits.shape().dim(2), false, 0}));
  return DispatchFloats(logits, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const int64_t rows = logits.shape().dim(0);
    T* out = context.Output(0, logits.dtype(), Shape({rows})).template mutable_data<T>();
    for (int64_t row = 0; row < rows; ++row) {
      out[row] = static_cast<T>(-MakeExample<T>(labels, logits, row).LogProbability());
    }
    return absl::OkStatus();
  });
}

absl::Status RunCtcGrad(KernelContext& context) {
  const Tensor& dloss = context.input(0);
  const Tensor& logits = context.input(2);
  RETURN_IF_ERROR(CheckShapes(context.input(1), logits));
  RETURN_IF_ERROR(RequireSameType(dloss, logits));
  if (dloss.shape() != Shape({logits.shape().dim(0)})) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient of the loss is ", dloss.TypeString(), " for logits ",
                     logits.TypeString(), "; it must have one number for each example"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> labels,
                   ReadLabels(context.input(1), {logits.shape().dim(2), false, 0}));
  return DispatchFloats(logits, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, logits.dtype(), logits.shape()).template mutable_data<T>();
    const auto size = static_cast<size_t>(logits.shape().dim(1) * logits.shape().dim(2));
    for (int64_t row = 0; row < logits.shape().dim(0); ++row) {
      std::vector<double> gradient(size, 0);
      MakeExample<T>(labels, logits, row)
          .AddGradient(static_cast<double>(dloss.data<T>()[row]), gradient);
      for (const double value : gradient) *out++ = static_cast<T>(value);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceCtc(KernelRegistry& registry) {
  registry.Add("cohort", "CtcLoss", PlainKernel({2, 2, {kLabels, kFloats}}, RunCtc));
  registry.Add("cohort", "CtcLossGrad",
               PlainKernel({3, 3, {kFloats, kLabels, kFloats}}, RunCtcGrad));
}

}  // namespace cohort
