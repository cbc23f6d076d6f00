#include "common/runtime/update_kernel.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "common/runtime/kernels/update/update_loops.h"

// Sources of the formulas: tf_keras/optimizers/{sgd,adagrad,rmsprop,adam}.py, `update_step`
// (TensorFlow 2.11 and later). Two choices of Keras that differ from other libraries: the learning
// rate is inside the momentum slot, and Adagrad's and RMSprop's epsilon is under the root.

namespace cohort {

namespace {

UpdateSpan ToSpan(const UpdateStep& step) {
  const size_t count = step.gradient.size();
  COHORT_CHECK(step.value_in.size() == count && step.value_out.size() == count,
               "gradient and values of one length");
  return {step.gradient.data(), step.value_in.data(), step.value_out.data(),
          static_cast<int64_t>(count)};
}

SlotSpan Slot(const UpdateStep& step, size_t index) {
  COHORT_CHECK(index < step.slots.size(), "spans for each slot of the rule");
  const SlotSpans& slot = step.slots[index];
  COHORT_CHECK(slot.in.size() == step.gradient.size() && slot.out.size() == step.gradient.size(),
               "slots as long as the gradient");
  return {slot.in.data(), slot.out.data()};
}

class SgdKernel : public UpdateKernel {
 public:
  explicit SgdKernel(const proto::UpdateRule& rule)
      : momentum_(static_cast<float>(ParameterOr(rule, "momentum", 0))),
        nesterov_(ParameterOr(rule, "nesterov", 0) != 0) {}

  void Apply(const UpdateStep& step) const override {
    const float learning_rate = static_cast<float>(step.learning_rate);
    if (momentum_ == 0) return SgdLoop(ToSpan(step), learning_rate);
    const MomentumRates rates = {learning_rate, momentum_};
    nesterov_ ? NesterovLoop(ToSpan(step), Slot(step, 0), rates)
              : MomentumLoop(ToSpan(step), Slot(step, 0), rates);
  }

 private:
  const float momentum_;
  const bool nesterov_;
};

class AdagradKernel : public UpdateKernel {
 public:
  explicit AdagradKernel(const proto::UpdateRule& rule)
      : epsilon_(static_cast<float>(ParameterOr(rule, "epsilon", 1e-7))) {}

  void Apply(const UpdateStep& step) const override {
    AdagradLoop(ToSpan(step), Slot(step, 0), {static_cast<float>(step.learning_rate), epsilon_});
  }

 private:
  const float epsilon_;
};

// Slots by name, because momentum and centered each add one.
class RmspropKernel : public UpdateKernel {
 public:
  RmspropKernel(const proto::UpdateRule& rule, const UpdateRuleSpec& spec)
      : rho_(ParameterOr(rule, "rho", 0.9)),
        momentum_(static_cast<float>(ParameterOr(rule, "momentum", 0))),
        epsilon_(static_cast<float>(ParameterOr(rule, "epsilon", 1e-7))),
        velocity_index_(IndexOf(spec, "velocity")),
        momentum_index_(IndexOf(spec, "momentum")),
        average_index_(IndexOf(spec, "average_gradient")) {}

  void Apply(const UpdateStep& step) const override {
    const RmspropSlots slots = {SlotOrNone(step, velocity_index_),
                                SlotOrNone(step, momentum_index_),
                                SlotOrNone(step, average_index_)};
    RmspropLoop(ToSpan(step), slots,
                {static_cast<float>(step.learning_rate), static_cast<float>(rho_),
                 static_cast<float>(1 - rho_), momentum_, epsilon_});
  }

 private:
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
  const int velocity_index_;
  const int momentum_index_;
  const int average_index_;
};

class AdamKernel : public UpdateKernel {
 public:
  explicit AdamKernel(const proto::UpdateRule& rule)
      : beta_1_(ParameterOr(rule, "beta_1", 0.9)),
        beta_2_(ParameterOr(rule, "beta_2", 0.999)),
        epsilon_(static_cast<float>(ParameterOr(rule, "epsilon", 1e-7))),
        amsgrad_(ParameterOr(rule, "amsgrad", 0) != 0) {}

  // The bias correction is computed in double: 1 - 0.999 in float32 is already off by 1e-5 of its
  // value.
  void Apply(const UpdateStep& step) const override {
    const double t = static_cast<double>(step.step);
    const double alpha =
        step.learning_rate * std::sqrt(1 - std::pow(beta_2_, t)) / (1 - std::pow(beta_1_, t));
    const AdamSlots slots = {Slot(step, 0), Slot(step, 1), amsgrad_ ? Slot(step, 2) : SlotSpan()};
    AdamLoop(ToSpan(step), slots,
             {static_cast<float>(alpha), static_cast<float>(1 - beta_1_),
              static_cast<float>(1 - beta_2_), epsilon_});
  }

 private:
  const double beta_1_;
  const double beta_2_;
  const float epsilon_;
  const bool amsgrad_;
};

class AssignAddKernel : public UpdateKernel {
 public:
  void Apply(const UpdateStep& step) const override { AddLoop(ToSpan(step)); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule) {
  ASSIGN_OR_RETURN(const UpdateRuleSpec spec, DescribeUpdateRule(rule));
  if (rule.op() == "sgd") return std::make_unique<SgdKernel>(rule);
  if (rule.op() == "adagrad") return std::make_unique<AdagradKernel>(rule);
  if (rule.op() == "rmsprop") return std::make_unique<RmspropKernel>(rule, spec);
  if (rule.op() == "adam") return std::make_unique<AdamKernel>(rule);
  if (rule.op() == "assign_add") return std::make_unique<AssignAddKernel>();
  return absl::InvalidArgumentError(
      absl::StrCat("update rule '", rule.op(), "' has no kernel on this device"));
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
