#include "common/runtime/update_kernel.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/runtime/optimizer_kernel.h"

// Sources of the formulas: keras/src/optimizers/{sgd,adagrad,rmsprop,adam,adamax,nadam,adadelta,
// ftrl}.py, `update_step`, and base_optimizer.py for what surrounds it. Two choices of Keras that
// differ from other libraries: the learning rate is inside the momentum slot, and Adagrad's and
// RMSprop's epsilon is under the root.

namespace cohort {

namespace {

class SgdKernel : public OptimizerKernel {
 public:
  SgdKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule, spec),
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

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    if (momentum_ == 0) return LoseLoop(SpanOf(step, missed));
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
  AdagradKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule, spec),
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

  void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const override {
    if (per_row_ || !is_rule_alone()) return OptimizerKernel::ApplyRows(rows, step);
    AdagradRowsLoop(rows, {static_cast<int64_t>(step.row_width), DecayOf(step)},
                    {static_cast<float>(step.learning_rate), epsilon_, outside_});
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    LoseLoop(SpanOf(step, missed));
    KeepSlot(step.slots[0]);
  }

  const bool per_row_;
  const float epsilon_;
  const bool outside_;
};

// Slots by name, because momentum and centered each add one.
class RmspropKernel : public OptimizerKernel {
 public:
  RmspropKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule, spec),
        rho_(ParameterOf(rule, "rho")),
        momentum_(FloatOf(rule, "momentum")),
        epsilon_(FloatOf(rule, "epsilon")),
        outside_(ParameterOf(rule, "epsilon_outside_root") != 0),
        velocity_index_(IndexOfSlot(spec, "velocity")),
        momentum_index_(IndexOfSlot(spec, "momentum")),
        average_index_(IndexOfSlot(spec, "average_gradient")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const RmspropSlots slots = {SlotOrNone(step, velocity_index_),
                                SlotOrNone(step, momentum_index_),
                                SlotOrNone(step, average_index_)};
    RmspropLoop(SpanOf(step), slots,
                {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
                 static_cast<float>(1 - rho_), momentum_, epsilon_, outside_});
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
  AdadeltaKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule, spec),
        rho_(ParameterOf(rule, "rho")),
        epsilon_(FloatOf(rule, "epsilon")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    AdadeltaLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)},
                 {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
                  static_cast<float>(1 - rho_), epsilon_});
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
  FtrlKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : OptimizerKernel(rule, spec),
        power_(-FloatOf(rule, "learning_rate_power")),
        l1_(FloatOf(rule, "l1_regularization_strength")),
        l2_(ParameterOf(rule, "l2_regularization_strength")),
        shrinkage_(FloatOf(rule, "l2_shrinkage_regularization_strength")),
        beta_(ParameterOf(rule, "beta")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    // The formula divides by the rate, and a schedule may end at 0: then nothing moves.
    if (step.learning_rate == 0) return KeepAll(step);
    FtrlLoop(SpanOf(step), {Slot(step, 0), Slot(step, 1)}, RatesOf(step));
  }

  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
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

class AssignAddKernel : public UpdateKernel {
 public:
  void Apply(const UpdateStep& step) const override { AddLoop(ToSpan(step)); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec spec, DescribeUpdateRule(rule));
  const std::string& op = rule.op();
  if (op == "sgd") return std::make_unique<SgdKernel>(rule, spec);
  if (op == "adagrad" || op == "rowwise_adagrad") {
    return std::make_unique<AdagradKernel>(rule, spec);
  }
  if (op == "rmsprop") return std::make_unique<RmspropKernel>(rule, spec);
  if (op == "adadelta") return std::make_unique<AdadeltaKernel>(rule, spec);
  if (op == "ftrl") return std::make_unique<FtrlKernel>(rule, spec);
  if (op == "assign_add") return std::make_unique<AssignAddKernel>();
  if (std::unique_ptr<UpdateKernel> kernel = MakeAdamKernel(rule, spec)) return kernel;
  return absl::InvalidArgumentError(
      absl::StrCat("update rule '", op, "' has no kernel on this device"));
}

void UpdateKernel::ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const {
  const size_t width = step.row_width;
  for (const RowUpdate& row : rows) {
    step.gradient = {row.gradient, width};
    step.value_in = step.value_out = absl::MakeSpan(row.value, width);
    for (size_t i = 0; i < step.slots.size(); ++i) {
      const absl::Span<float> slot = absl::MakeSpan(row.slots[i], step.slots[i].out.size());
      step.slots[i] = {slot, slot};
    }
    Apply(step);
  }
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
