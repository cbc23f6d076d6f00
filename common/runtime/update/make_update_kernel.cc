#include "common/runtime/update/make_update_kernel.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/runtime/update/optimizer_kernel.h"
#include "common/runtime/update/whole_kernels.h"

// Sources of the formulas: keras/src/optimizers/{sgd,adagrad,rmsprop,adam,adamax,nadam,adadelta,
// ftrl}.py, `update_step`; weight decay and averages are in base_optimizer.py. Keras differs from
// other libraries in two choices: the momentum slot includes the learning rate, and the epsilon of
// Adagrad and RMSprop is under the root.

namespace cohort {

namespace {

class SgdKernel : public OptimizerKernel {
 public:
  explicit SgdKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        momentum_(FloatOf(options.rule, "momentum")),
        nesterov_(ParameterOf(options.rule, "nesterov") != 0),
        of_gradients_(ParameterOf(options.rule, "momentum_of_gradients") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const float learning_rate = static_cast<float>(step.learning_rate);
    if (momentum_ == 0) return Run(&UpdatesLaunches::sgd, {SpanOf(step), learning_rate});
    Run(&UpdatesLaunches::momentum,
        {SpanOf(step), Slot(step, 0), {learning_rate, momentum_, nesterov_, of_gradients_}});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    if (momentum_ == 0) return LoseLoop(SpanOf(step, missed));
    // Without momentum_of_gradients the momentum slot includes the learning rate. With Nesterov,
    // each missed step moves the value by momentum * m instead of m.
    const double rate = (of_gradients_ ? -step.learning_rate : 1) * (nesterov_ ? momentum_ : 1);
    MoveLoop(SpanOf(step, missed), Slot(step, 0).in,
             static_cast<float>(rate * missed.Moves(momentum_)));
    ScaleSlot(step, 0, missed.Scale(momentum_));
  }

  const float momentum_;
  const bool nesterov_;
  const bool of_gradients_;
};

class AdagradKernel : public OptimizerKernel {
 public:
  explicit AdagradKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        per_row_(options.rule.op() == "rowwise_adagrad"),
        epsilon_(FloatOf(options.rule, "epsilon")),
        outside_(ParameterOf(options.rule, "epsilon_outside_root") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const AdagradRates rates = {static_cast<float>(step.learning_rate), epsilon_, outside_};
    if (!per_row_) {
      return Run(&UpdatesLaunches::adagrad, {SpanOf(step), Slot(step, 0), rates});
    }
    Run(&UpdatesLaunches::rowwise_adagrad,
        {SpanOf(step), Slot(step, 0, step.row_width), static_cast<int64_t>(step.row_width), rates});
  }

  void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const override {
    // AdagradRowsLoop cannot update a moving average, make up for missed steps, or use one
    // accumulator for each row. In these cases the rows are updated one after the other.
    if (per_row_ || !is_rule_alone()) return OptimizerKernel::ApplyRows(rows, step);
    AdagradRowsLoop(rows, {static_cast<int64_t>(step.row_width), DecayOf(step)},
                    {static_cast<float>(step.learning_rate), epsilon_, outside_});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    // The missed steps had no gradient, so only weight decay changes the value, and the accumulator
    // stays.
    LoseLoop(SpanOf(step, missed));
    KeepSlot(step.slots[0]);
  }

  const bool per_row_;
  const float epsilon_;
  const bool outside_;
};

// The kernel of RMSprop. Slots are found by name, because their numbers depend on the options
// momentum and centered, each of which adds a slot.
class RmspropKernel : public OptimizerKernel {
 public:
  explicit RmspropKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        rho_(ParameterOf(options.rule, "rho")),
        momentum_(FloatOf(options.rule, "momentum")),
        epsilon_(FloatOf(options.rule, "epsilon")),
        outside_(ParameterOf(options.rule, "epsilon_outside_root") != 0),
        velocity_index_(IndexOfSlot(options.spec, "velocity")),
        momentum_index_(IndexOfSlot(options.spec, "momentum")),
        average_index_(IndexOfSlot(options.spec, "average_gradient")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const RmspropSlots slots = {SlotOrNone(step, velocity_index_),
                                SlotOrNone(step, momentum_index_),
                                SlotOrNone(step, average_index_)};
    Run(&UpdatesLaunches::rmsprop,
        {SpanOf(step),
         slots,
         {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
          static_cast<float>(1 - rho_), momentum_, epsilon_, outside_}});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    if (momentum_index_ < 0) {
      LoseLoop(SpanOf(step, missed));
    } else {
      MoveLoop(SpanOf(step, missed), SlotOrNone(step, momentum_index_).in,
               static_cast<float>(-missed.Moves(momentum_)));
      ScaleSlot(step, static_cast<size_t>(momentum_index_), missed.Scale(momentum_));
    }
    for (const int average : {velocity_index_, average_index_}) {
      if (average >= 0) ScaleSlot(step, static_cast<size_t>(average), missed.Scale(rho_));
    }
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
  explicit AdadeltaKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        rho_(ParameterOf(options.rule, "rho")),
        epsilon_(FloatOf(options.rule, "epsilon")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    Run(&UpdatesLaunches::adadelta,
        {SpanOf(step),
         {Slot(step, 0), Slot(step, 1)},
         {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
          static_cast<float>(1 - rho_), epsilon_}});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    LoseLoop(SpanOf(step, missed));
    for (const size_t slot : {0, 1}) ScaleSlot(step, slot, missed.Scale(rho_));
  }

  const double rho_;
  const float epsilon_;
};

class FtrlKernel : public OptimizerKernel {
 public:
  explicit FtrlKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        power_(-FloatOf(options.rule, "learning_rate_power")),
        l1_(FloatOf(options.rule, "l1_regularization_strength")),
        l2_(ParameterOf(options.rule, "l2_regularization_strength")),
        shrinkage_(FloatOf(options.rule, "l2_shrinkage_regularization_strength")),
        beta_(ParameterOf(options.rule, "beta")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    // FTRL's formula divides by the learning rate, which may be 0 at the end of a schedule. With a
    // learning rate of 0, the value and the slots stay as they are.
    if (step.learning_rate == 0) return KeepAll(step);
    Run(&UpdatesLaunches::ftrl, {SpanOf(step), {Slot(step, 0), Slot(step, 1)}, RatesOf(step)});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    // With a learning rate of 0, the value and the slots stay as they are, as in ApplyRule.
    if (step.learning_rate == 0) return KeepAll(step);
    MissedFtrlLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)}, RatesOf(step), missed.count);
  }

  FtrlRates RatesOf(const UpdateStep& step) const {
    const double rate = step.learning_rate;
    const double two_l2 = 2 * l2_ + (beta_ == 0 ? 0 : beta_ / rate);
    return {static_cast<float>(1 / rate), power_, l1_, static_cast<float>(two_l2), 2 * shrinkage_};
  }

  const float power_;
  const float l1_;
  const double l2_;
  const float shrinkage_;
  const double beta_;
};

// The decay rates beta_1 and beta_2, and the epsilon, of Adam, Adamax and Nadam.
struct Betas {
  explicit Betas(const proto::UpdateRule& rule)
      : first(ParameterOf(rule, "beta_1")),
        second(ParameterOf(rule, "beta_2")),
        epsilon(FloatOf(rule, "epsilon")) {}

  // Multiplies the slots m and u by beta_1^k and beta_2^k for k missed steps, which have no
  // gradient.
  void Fade(const UpdateStep& step, const MissedSteps& missed) const {
    ScaleSlot(step, 0, missed.Scale(first));
    ScaleSlot(step, 1, missed.Scale(second));
  }

  const double first;
  const double second;
  const float epsilon;
};

class AdamKernel : public OptimizerKernel {
 public:
  explicit AdamKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        betas_(options.rule),
        amsgrad_(ParameterOf(options.rule, "amsgrad") != 0),
        learning_rate_ratio_(ParameterOf(options.rule, "learning_rate_ratio")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const AdamSlots slots = {Slot(step, 0), Slot(step, 1), amsgrad_ ? Slot(step, 2) : SlotSpan()};
    Run(&UpdatesLaunches::adam,
        {SpanOf(step),
         slots,
         {static_cast<float>(Alpha(step)), static_cast<float>(1 - betas_.first),
          static_cast<float>(1 - betas_.second), betas_.epsilon}});
  }

  // Moves the value by the missed steps, and then shrinks the slots m and u. Without AMSGrad, the
  // moves shrink from step to step as m / sqrt(u) does. With AMSGrad, they shrink as m does,
  // because the largest u does not shrink.
  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    const double fade = amsgrad_ ? betas_.first : betas_.first / std::sqrt(betas_.second);
    MoveByRootLoop(SpanOf(step, missed), {Slot(step, 0), Slot(step, amsgrad_ ? 2 : 1), {}},
                   {static_cast<float>(Alpha(step) * missed.Moves(fade)), 1, betas_.epsilon});
    betas_.Fade(step, missed);
    if (amsgrad_) KeepSlot(step.slots[2]);
  }

  // Returns alpha of Adam's formula (updates.h): the learning rate times both bias corrections.
  double Alpha(const UpdateStep& step) const {
    return step.learning_rate * learning_rate_ratio_ *
           std::sqrt(BiasCorrection(betas_.second, step.step)) /
           BiasCorrection(betas_.first, step.step);
  }

  const Betas betas_;
  const bool amsgrad_;
  const double learning_rate_ratio_;
};

// The kernel of Lion. A rule with missed steps is refused (DescribeUpdateRule).
class LionKernel : public OptimizerKernel {
 public:
  explicit LionKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        beta_1_(ParameterOf(options.rule, "beta_1")),
        beta_2_(ParameterOf(options.rule, "beta_2")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    Run(&UpdatesLaunches::lion, {SpanOf(step),
                                 Slot(step, 0),
                                 {static_cast<float>(step.learning_rate),
                                  static_cast<float>(beta_1_), static_cast<float>(1 - beta_1_),
                                  static_cast<float>(beta_2_), static_cast<float>(1 - beta_2_)}});
  }

  void CatchUp(const UpdateStep&, const MissedSteps&) const override {
    COHORT_CHECK(false, "no missed steps under lion");
  }

  const double beta_1_;
  const double beta_2_;
};

class AdamaxKernel : public OptimizerKernel {
 public:
  explicit AdamaxKernel(const KernelOptions& options)
      : OptimizerKernel(options), betas_(options.rule) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    Run(&UpdatesLaunches::adamax,
        {SpanOf(step),
         {Slot(step, 0), Slot(step, 1)},
         {static_cast<float>(Rate(step)), static_cast<float>(1 - betas_.first),
          static_cast<float>(betas_.second), betas_.epsilon}});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    // Adamax moves a value by m / u. In each missed step this quotient shrinks by the factor beta_1
    // / beta_2.
    const double moves = missed.Moves(betas_.first / betas_.second);
    MoveByNormLoop(SpanOf(step, missed), {Slot(step, 0), Slot(step, 1)},
                   {static_cast<float>(Rate(step) * moves), betas_.epsilon});
    betas_.Fade(step, missed);
  }

  double Rate(const UpdateStep& step) const {
    return step.learning_rate / BiasCorrection(betas_.first, step.step);
  }

  const Betas betas_;
};

// The kernel of Nadam. The momentum of step t is beta_1 f(t) with f(t) = 1 - 0.96^t / 2, and the
// bias correction of step t needs the product of the momenta up to t: beta_1^t f(1) ... f(t). Keras
// accumulates this product in a variable. This kernel computes the product from t, so that steps
// may come in any order, also after a restore. From t = 900 on, f(t) is exactly 1 in double and the
// product of the f no longer changes, so a table up to there serves every t. Keras 2's older Nadam
// has f(t) = 1 - 0.96^(d t) / 2 with a small schedule_decay d, so its f stays near 1/2 for long.
// Its product ends as 0: the table then ends where the product no longer changes 1 - product.
class NadamKernel : public OptimizerKernel {
 public:
  explicit NadamKernel(const KernelOptions& options)
      : OptimizerKernel(options),
        betas_(options.rule),
        schedule_decay_(ParameterOf(options.rule, "schedule_decay")) {
    constexpr double kNegligible = 1e-20;
    while (products_.back() > kNegligible) {
      const double factor = Schedule(static_cast<double>(products_.size()));
      if (factor == 1) break;
      products_.push_back(products_.back() * factor);
    }
  }

 private:
  double Schedule(double t) const { return 1 - 0.5 * std::pow(0.96, schedule_decay_ * t); }

  void ApplyRule(const UpdateStep& step) const override {
    Run(&UpdatesLaunches::nadam, {SpanOf(step), {Slot(step, 0), Slot(step, 1)}, RatesOf(step)});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    const NadamRates rates = RatesOf(step);
    const double moves = missed.Moves(betas_.first / std::sqrt(betas_.second));
    MoveByRootLoop(SpanOf(step, missed), {Slot(step, 0), Slot(step, 1), {}},
                   {static_cast<float>(rates.momentum_rate * moves), rates.scale, rates.epsilon});
    betas_.Fade(step, missed);
  }

  NadamRates RatesOf(const UpdateStep& step) const {
    const double t = static_cast<double>(step.step);
    // The momenta of this step and of the next step, which Keras calls u_t and u_t_1.
    const double now = betas_.first * Schedule(t);
    const double next = betas_.first * Schedule(t + 1);
    const double product =
        std::pow(betas_.first, t) * products_[std::min<uint64_t>(step.step, products_.size() - 1)];
    const double rate = step.learning_rate;
    return {static_cast<float>(rate * next / (1 - product * next)),
            static_cast<float>(rate * (1 - now) / (1 - product)),
            static_cast<float>(1 / BiasCorrection(betas_.second, step.step)),
            static_cast<float>(1 - betas_.first),
            static_cast<float>(1 - betas_.second),
            betas_.epsilon};
  }

  const Betas betas_;
  const double schedule_decay_;
  std::vector<double> products_ = {1};  // product of f(1) ... f(t) at index t
};

// The kernel of assign_add for float variables: no slots, no weight decay, no average.
class AssignAddKernel : public UpdateKernel {
 public:
  explicit AssignAddKernel(CudaStream* stream) : stream_(stream) {}

  void Apply(const UpdateStep& step) const override {
    RunLoopOn(stream_, &UpdatesLaunches::add, {ToSpan(step)});
  }

 private:
  CudaStream* const stream_;
};

// Makes the kernel of an update rule. The kernel posts its loops to `stream`, or runs on the
// processor if `stream` is null.
absl::StatusOr<std::unique_ptr<UpdateKernel>> Make(const proto::UpdateRule& rule,
                                                   CudaStream* stream) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec spec, DescribeUpdateRule(rule));
  if (stream != nullptr && spec.on_processor) {
    return absl::InvalidArgumentError(
        absl::StrCat("update rule '", rule.op(),
                     "' has no kernel on this device; a rule of whole "
                     "variables, or one that accumulates gradients, runs on the processor"));
  }
  const KernelOptions options = {rule, spec, stream};
  if (std::unique_ptr<UpdateKernel> whole = MakeWholeKernel(options)) return whole;
  const std::string& op = rule.op();
  if (op == "sgd") return std::make_unique<SgdKernel>(options);
  if (op == "adagrad" || op == "rowwise_adagrad") return std::make_unique<AdagradKernel>(options);
  if (op == "rmsprop") return std::make_unique<RmspropKernel>(options);
  if (op == "adadelta") return std::make_unique<AdadeltaKernel>(options);
  if (op == "ftrl") return std::make_unique<FtrlKernel>(options);
  if (op == "adam") return std::make_unique<AdamKernel>(options);
  if (op == "adamax") return std::make_unique<AdamaxKernel>(options);
  if (op == "lion") return std::make_unique<LionKernel>(options);
  if (op == "nadam") return std::make_unique<NadamKernel>(options);
  if (op == "assign_add") return std::make_unique<AssignAddKernel>(stream);
  return absl::InvalidArgumentError(
      absl::StrCat("update rule '", op, "' has no kernel on this device"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule) {
  return Make(rule, nullptr);
}

absl::StatusOr<std::unique_ptr<UpdateKernel>> MakePostedUpdateKernel(const proto::UpdateRule& rule,
                                                                     CudaStream& stream) {
  return Make(rule, &stream);
}

}  // namespace cohort
