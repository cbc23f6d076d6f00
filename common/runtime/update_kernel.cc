#include "common/runtime/update_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "common/runtime/kernels/update/update_loops.h"

// Sources of the formulas: keras/src/optimizers/{sgd,adagrad,rmsprop,adam,adamax,nadam,adadelta,
// ftrl}.py, `update_step`, and base_optimizer.py for what surrounds it. Two choices of Keras that
// differ from other libraries: the learning rate is inside the momentum slot, and Adagrad's and
// RMSprop's epsilon is under the root.

namespace cohort {

namespace {

// With an average the value is passed over twice; in parts of so many elements it stays in the
// first-level cache meanwhile, and memory is still read and written once.
constexpr size_t kPartElements = 4096;

UpdateSpan ToSpan(const UpdateStep& step) {
  const size_t count = step.gradient.size();
  COHORT_CHECK(step.value_in.size() == count && step.value_out.size() == count,
               "gradient and values of one length");
  return {.gradient = step.gradient.data(),
          .value_in = step.value_in.data(),
          .value_out = step.value_out.data(),
          .count = static_cast<int64_t>(count)};
}

// Of a slot with one element for each `width` of the value.
SlotSpan Slot(const UpdateStep& step, size_t index, size_t width = 1) {
  COHORT_CHECK(index < step.slots.size(), "spans for each slot of the rule");
  const SlotSpans& slot = step.slots[index];
  COHORT_CHECK(slot.in.size() * width == step.gradient.size() && slot.out.size() == slot.in.size(),
               "slots as long as the gradient, or as it has rows");
  return {slot.in.data(), slot.out.data()};
}

float FloatOf(const proto::UpdateRule& rule, const char* name) {
  return static_cast<float>(ParameterOf(rule, name));
}

template <typename T>
void Copy(absl::Span<const T> in, absl::Span<T> out) {
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
}

void KeepAll(const UpdateStep& step) {
  Copy(step.value_in, step.value_out);
  for (const SlotSpans& slot : step.slots) Copy(slot.in, slot.out);
}

// `begin` and `count` are whole rows.
UpdateStep PartOf(const UpdateStep& step, size_t begin, size_t count) {
  UpdateStep part = step;
  part.gradient = step.gradient.subspan(begin, count);
  part.value_in = step.value_in.subspan(begin, count);
  part.value_out = step.value_out.subspan(begin, count);
  for (SlotSpans& slot : part.slots) {
    const size_t width = step.gradient.size() / slot.in.size();
    slot = {slot.in.subspan(begin / width, count / width),
            slot.out.subspan(begin / width, count / width)};
  }
  return part;
}

// What all optimizers share.
class OptimizerKernel : public UpdateKernel {
 public:
  explicit OptimizerKernel(const proto::UpdateRule& rule)
      : weight_decay_(ParameterOf(rule, "weight_decay")),
        use_average_(ParameterOf(rule, "use_ema") != 0),
        average_share_(static_cast<float>(1 - ParameterOf(rule, "ema_momentum"))),
        overwrite_every_(static_cast<uint64_t>(ParameterOf(rule, "ema_overwrite_frequency"))) {}

  void Apply(const UpdateStep& step) const final {
    if (!use_average_) return ApplyRule(step);
    const size_t rows = std::max<size_t>(kPartElements / step.row_width, 1);
    const size_t part = rows * step.row_width;
    for (size_t begin = 0; begin < step.gradient.size(); begin += part) {
      UpdateStep rest = PartOf(step, begin, std::min(part, step.gradient.size() - begin));
      ApplyRule(rest);
      UpdateAverage(rest);
    }
  }

 protected:
  UpdateSpan SpanOf(const UpdateStep& step) const {
    UpdateSpan span = ToSpan(step);
    span.decay = static_cast<float>(weight_decay_ * step.learning_rate);
    return span;
  }

 private:
  virtual void ApplyRule(const UpdateStep& step) const = 0;

  // The average begins with the first value, as Keras's does.
  void UpdateAverage(UpdateStep& step) const {
    step.value_in = step.value_out;
    const SlotSpans& slot = step.slots.back();
    if (step.step == 1) {
      Copy(step.value_in, slot.out);
    } else {
      AverageLoop(ToSpan(step), Slot(step, step.slots.size() - 1), average_share_);
    }
    const bool overwrites = overwrite_every_ != 0 && step.step % overwrite_every_ == 0;
    if (overwrites) Copy<float>(slot.out, step.value_out);
  }

  const double weight_decay_;
  const bool use_average_;
  const float average_share_;  // of the value in its average
  const uint64_t overwrite_every_;  // 0: never
};

class SgdKernel : public OptimizerKernel {
 public:
  explicit SgdKernel(const proto::UpdateRule& rule)
      : OptimizerKernel(rule),
        momentum_(FloatOf(rule, "momentum")),
        nesterov_(ParameterOf(rule, "nesterov") != 0),
        of_gradients_(ParameterOf(rule, "momentum_of_gradients") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const float learning_rate = static_cast<float>(step.learning_rate);
    if (momentum_ == 0) return SgdLoop(SpanOf(step), learning_rate);
    const MomentumRates rates = {learning_rate, momentum_};
    if (of_gradients_) {
      nesterov_ ? GradientNesterovLoop(SpanOf(step), Slot(step, 0), rates)
                : GradientMomentumLoop(SpanOf(step), Slot(step, 0), rates);
    } else {
      nesterov_ ? NesterovLoop(SpanOf(step), Slot(step, 0), rates)
                : MomentumLoop(SpanOf(step), Slot(step, 0), rates);
    }
  }

  const float momentum_;
  const bool nesterov_;
  const bool of_gradients_;
};

class AdagradKernel : public OptimizerKernel {
 public:
  explicit AdagradKernel(const proto::UpdateRule& rule)
      : OptimizerKernel(rule),
        per_row_(rule.op() == "rowwise_adagrad"),
        epsilon_(FloatOf(rule, "epsilon")),
        outside_(ParameterOf(rule, "epsilon_outside_root") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const AdagradRates rates = {static_cast<float>(step.learning_rate), epsilon_, outside_};
    if (!per_row_) return AdagradLoop(SpanOf(step), Slot(step, 0), rates);
    RowwiseAdagradLoop(SpanOf(step), Slot(step, 0, step.row_width),
                       static_cast<int64_t>(step.row_width), rates);
  }

  const bool per_row_;
  const float epsilon_;
  const bool outside_;
};

// Slots by name, because momentum and centered each add one.
class RmspropKernel : public OptimizerKernel {
 public:
  RmspropKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule),
        rho_(ParameterOf(rule, "rho")),
        momentum_(FloatOf(rule, "momentum")),
        epsilon_(FloatOf(rule, "epsilon")),
        outside_(ParameterOf(rule, "epsilon_outside_root") != 0),
        velocity_index_(IndexOf(spec, "velocity")),
        momentum_index_(IndexOf(spec, "momentum")),
        average_index_(IndexOf(spec, "average_gradient")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const RmspropSlots slots = {SlotOrNone(step, velocity_index_),
                                SlotOrNone(step, momentum_index_),
                                SlotOrNone(step, average_index_)};
    RmspropLoop(SpanOf(step), slots,
                {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
                 static_cast<float>(1 - rho_), momentum_, epsilon_, outside_});
  }

  static int IndexOf(const UpdateRuleSpec& spec, const std::string& name) {
    for (size_t i = 0; i < spec.slots.size(); ++i) {
      if (spec.slots[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
  static SlotSpan SlotOrNone(const UpdateStep& step, int index) {
    return index < 0 ? SlotSpan() : Slot(step, static_cast<size_t>(index));
  }

  const double rho_;
  const float momentum_;
  const float epsilon_;
  const bool outside_;
  const int velocity_index_;
  const int momentum_index_;
  const int average_index_;
};

class AdadeltaKernel : public OptimizerKernel {
 public:
  explicit AdadeltaKernel(const proto::UpdateRule& rule)
      : OptimizerKernel(rule),
        rho_(ParameterOf(rule, "rho")),
        epsilon_(FloatOf(rule, "epsilon")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    AdadeltaLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)},
                 {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
                  static_cast<float>(1 - rho_), epsilon_});
  }

  const double rho_;
  const float epsilon_;
};

// Of Adam and its kin. Bias corrections are computed in double: 1 - 0.999 in float32 is already off
// by 1e-5 of its value.
struct Betas {
  explicit Betas(const proto::UpdateRule& rule)
      : first(ParameterOf(rule, "beta_1")),
        second(ParameterOf(rule, "beta_2")),
        epsilon(FloatOf(rule, "epsilon")) {}

  // 1 - beta^t
  static double Correction(double beta, uint64_t t) {
    return 1 - std::pow(beta, static_cast<double>(t));
  }

  const double first;
  const double second;
  const float epsilon;
};

class AdamKernel : public OptimizerKernel {
 public:
  explicit AdamKernel(const proto::UpdateRule& rule)
      : OptimizerKernel(rule), betas_(rule), amsgrad_(ParameterOf(rule, "amsgrad") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const double alpha = step.learning_rate *
                         std::sqrt(Betas::Correction(betas_.second, step.step)) /
                         Betas::Correction(betas_.first, step.step);
    const AdamSlots slots = {Slot(step, 0), Slot(step, 1), amsgrad_ ? Slot(step, 2) : SlotSpan()};
    AdamLoop(SpanOf(step), slots,
             {static_cast<float>(alpha), static_cast<float>(1 - betas_.first),
              static_cast<float>(1 - betas_.second), betas_.epsilon});
  }

  const Betas betas_;
  const bool amsgrad_;
};

class AdamaxKernel : public OptimizerKernel {
 public:
  explicit AdamaxKernel(const proto::UpdateRule& rule) : OptimizerKernel(rule), betas_(rule) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const double rate = step.learning_rate / Betas::Correction(betas_.first, step.step);
    AdamaxLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)},
               {static_cast<float>(rate), static_cast<float>(1 - betas_.first),
                static_cast<float>(betas_.second), betas_.epsilon});
  }

  const Betas betas_;
};

// Nadam's momentum of step t is beta_1 f(t) with f(t) = 1 - 0.96^t / 2, and its bias correction
// needs the product of the momenta of all steps until t: beta_1^t f(1) ... f(t). Keras multiplies
// it up in a variable; here it follows from t, so that steps may come in any order, and after a
// restore. From t = 900 on f is exactly 1 in double, and the product of the f stays as it is: a
// table up to there serves every t.
class NadamKernel : public OptimizerKernel {
 public:
  explicit NadamKernel(const proto::UpdateRule& rule) : OptimizerKernel(rule), betas_(rule) {
    products_[0] = 1;
    for (size_t t = 1; t < products_.size(); ++t) {
      products_[t] = products_[t - 1] * Schedule(static_cast<double>(t));
    }
  }

 private:
  static double Schedule(double t) { return 1 - 0.5 * std::pow(0.96, t); }

  void ApplyRule(const UpdateStep& step) const override {
    const double t = static_cast<double>(step.step);
    const double now = betas_.first * Schedule(t);
    const double next = betas_.first * Schedule(t + 1);
    const double product = std::pow(betas_.first, t) *
                           products_[std::min<uint64_t>(step.step, products_.size() - 1)];
    const double rate = step.learning_rate;
    NadamLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)},
              {static_cast<float>(rate * next / (1 - product * next)),
               static_cast<float>(rate * (1 - now) / (1 - product)),
               static_cast<float>(1 / Betas::Correction(betas_.second, step.step)),
               static_cast<float>(1 - betas_.first), static_cast<float>(1 - betas_.second),
               betas_.epsilon});
  }

  const Betas betas_;
  std::array<double, 1024> products_;
};

class FtrlKernel : public OptimizerKernel {
 public:
  explicit FtrlKernel(const proto::UpdateRule& rule)
      : OptimizerKernel(rule),
        power_(-FloatOf(rule, "learning_rate_power")),
        l1_(FloatOf(rule, "l1_regularization_strength")),
        l2_(ParameterOf(rule, "l2_regularization_strength")),
        shrinkage_(FloatOf(rule, "l2_shrinkage_regularization_strength")),
        beta_(ParameterOf(rule, "beta")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const double rate = step.learning_rate;
    // The formula divides by the rate, and a schedule may end at 0: then nothing moves.
    if (rate == 0) return KeepAll(step);
    const double two_l2 = 2 * l2_ + (beta_ == 0 ? 0 : beta_ / rate);
    FtrlLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)},
             {static_cast<float>(1 / rate), power_, l1_, static_cast<float>(two_l2),
              2 * shrinkage_});
  }

  const float power_;
  const float l1_;
  const double l2_;
  const float shrinkage_;
  const double beta_;
};

class AssignAddKernel : public UpdateKernel {
 public:
  void Apply(const UpdateStep& step) const override { AddLoop(ToSpan(step)); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec spec, DescribeUpdateRule(rule));
  const std::string& op = rule.op();
  if (op == "sgd") return std::make_unique<SgdKernel>(rule);
  if (op == "adagrad" || op == "rowwise_adagrad") return std::make_unique<AdagradKernel>(rule);
  if (op == "rmsprop") return std::make_unique<RmspropKernel>(rule, spec);
  if (op == "adadelta") return std::make_unique<AdadeltaKernel>(rule);
  if (op == "adam") return std::make_unique<AdamKernel>(rule);
  if (op == "adamax") return std::make_unique<AdamaxKernel>(rule);
  if (op == "nadam") return std::make_unique<NadamKernel>(rule);
  if (op == "ftrl") return std::make_unique<FtrlKernel>(rule);
  if (op == "assign_add") return std::make_unique<AssignAddKernel>();
  return absl::InvalidArgumentError(
      absl::StrCat("update rule '", op, "' has no kernel on this device"));
}

void AssignAddInt64(absl::Span<const int64_t> delta, absl::Span<const int64_t> value_in,
                    absl::Span<int64_t> value_out) {
  COHORT_CHECK(value_in.size() == delta.size() && value_out.size() == delta.size(),
               "spans of one length");
  // Unsigned: a counter that overflows wraps instead of being undefined.
  for (size_t i = 0; i < delta.size(); ++i) {
    value_out[i] =
        static_cast<int64_t>(static_cast<uint64_t>(value_in[i]) + static_cast<uint64_t>(delta[i]));
  }
}

}  // namespace cohort
