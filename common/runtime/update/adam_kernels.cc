#include <array>
#include <cmath>
#include <string>

#include "common/runtime/update/optimizer_kernel.h"

namespace cohort {

namespace {

// The betas of Adam, Adamax and Nadam. Bias corrections are computed in double, because 1 - 0.999
// in float32 is already off by 1e-5 of its value.
struct Betas {
  explicit Betas(const proto::UpdateRule& rule)
      : first(ParameterOf(rule, "beta_1")),
        second(ParameterOf(rule, "beta_2")),
        epsilon(FloatOf(rule, "epsilon")) {}

  // Returns 1 - beta^t, by which a moving average that began with 0 is divided.
  static double Correction(double beta, uint64_t t) {
    return 1 - std::pow(beta, static_cast<double>(t));
  }

  // Multiplies m and u by the factors of the missed steps, which have no gradient.
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
        amsgrad_(ParameterOf(options.rule, "amsgrad") != 0) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const AdamSlots slots = {Slot(step, 0), Slot(step, 1), amsgrad_ ? Slot(step, 2) : SlotSpan()};
    Run(&UpdatesLaunches::adam,
        {SpanOf(step),
         slots,
         {static_cast<float>(Alpha(step)), static_cast<float>(1 - betas_.first),
          static_cast<float>(1 - betas_.second), betas_.epsilon}});
  }

  // Moves the value by the missed steps, then fades the slots. AMSGrad's largest u does not fade,
  // so AMSGrad's moves fade as m does; Adam's moves fade as m / sqrt(u) does.
  void CatchUp(const UpdateStep& step, const MissedSteps& missed) const override {
    const double fade = amsgrad_ ? betas_.first : betas_.first / std::sqrt(betas_.second);
    MoveByRootLoop(SpanOf(step, missed), {Slot(step, 0), Slot(step, amsgrad_ ? 2 : 1), {}},
                   {static_cast<float>(Alpha(step) * missed.Moves(fade)), 1, betas_.epsilon});
    betas_.Fade(step, missed);
    if (amsgrad_) KeepSlot(step.slots[2]);
  }

  // Returns the learning rate times both bias corrections.
  double Alpha(const UpdateStep& step) const {
    return step.learning_rate * std::sqrt(Betas::Correction(betas_.second, step.step)) /
           Betas::Correction(betas_.first, step.step);
  }

  const Betas betas_;
  const bool amsgrad_;
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
    // Adamax moves a value by m / u, and this quotient shrinks by beta_1 / beta_2 a step.
    const double moves = missed.Moves(betas_.first / betas_.second);
    MoveByNormLoop(SpanOf(step, missed), {Slot(step, 0), Slot(step, 1)},
                   {static_cast<float>(Rate(step) * moves), betas_.epsilon});
    betas_.Fade(step, missed);
  }

  double Rate(const UpdateStep& step) const {
    return step.learning_rate / Betas::Correction(betas_.first, step.step);
  }

  const Betas betas_;
};

// The kernel of Nadam. The momentum of step t is beta_1 f(t) with f(t) = 1 - 0.96^t / 2, and the
// bias correction of step t needs the product of the momenta up to t: beta_1^t f(1) ... f(t). Keras
// accumulates this product in a variable. This kernel computes the product from t, so that steps
// may come in any order, also after a restore. From t = 900 on, f(t) is exactly 1 in double and the
// product of the f no longer changes, so a table up to there serves every t.
class NadamKernel : public OptimizerKernel {
 public:
  explicit NadamKernel(const KernelOptions& options)
      : OptimizerKernel(options), betas_(options.rule) {
    products_[0] = 1;
    for (size_t t = 1; t < products_.size(); ++t) {
      products_[t] = products_[t - 1] * Schedule(static_cast<double>(t));
    }
  }

 private:
  static double Schedule(double t) { return 1 - 0.5 * std::pow(0.96, t); }

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
    // The momenta of this step and of the next step, Keras's u_t and u_t_1.
    const double now = betas_.first * Schedule(t);
    const double next = betas_.first * Schedule(t + 1);
    const double product =
        std::pow(betas_.first, t) * products_[std::min<uint64_t>(step.step, products_.size() - 1)];
    const double rate = step.learning_rate;
    return {static_cast<float>(rate * next / (1 - product * next)),
            static_cast<float>(rate * (1 - now) / (1 - product)),
            static_cast<float>(1 / Betas::Correction(betas_.second, step.step)),
            static_cast<float>(1 - betas_.first),
            static_cast<float>(1 - betas_.second),
            betas_.epsilon};
  }

  const Betas betas_;
  std::array<double, 1024> products_;
};

}  // namespace

std::unique_ptr<UpdateKernel> MakeAdamKernel(const KernelOptions& options) {
  const std::string& op = options.rule.op();
  if (op == "adam") return std::make_unique<AdamKernel>(options);
  if (op == "adamax") return std::make_unique<AdamaxKernel>(options);
  if (op == "nadam") return std::make_unique<NadamKernel>(options);
  return nullptr;
}

}  // namespace cohort
