#include "coordinator/train/optimizer_export.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/program/update_rule.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/train/keras_slots.h"

namespace cohort {

namespace {

using Kind = KerasOptimizerValue::Kind;
using Groups = std::vector<std::vector<KerasSlot>>;

bool HasConstantRate(const JobSpec& job) {
  return job.compile.optimizer.schedule.class_name.empty();
}

// Returns the variables that the optimizer trains, in Keras's order.
std::vector<const proto::VariableLayout*> TrainedOf(const TrainedState& state,
                                                    absl::Span<const std::string> order) {
  std::map<std::string, const proto::VariableLayout*> trained;
  for (const proto::VariableLayout& layout : state.layouts) {
    const bool is_trained =
        layout.rule().op() != "assign_add" && !layout.has_dynamic() && layout.replicas() == 0;
    if (is_trained) trained[layout.name()] = &layout;
  }
  std::vector<const proto::VariableLayout*> ordered;
  for (const std::string& name : order) {
    if (const auto found = trained.find(name); found != trained.end()) {
      ordered.push_back(found->second);
    }
  }
  return ordered;
}

// Returns why the slots of a variable are not those that Keras would have, or "".
std::string WhyOtherThanKeras(const proto::VariableLayout& variable) {
  const auto rule = DescribeUpdateRule(variable.rule());
  if (!rule.ok()) return std::string(rule.status().message());
  if (static_cast<DType>(variable.dtype()) != DType::kFloat32) {
    return absl::StrCat("the variable ", Excerpt(variable.name()), " is not float32");
  }
  const bool waits = std::any_of(rule->slots.begin(), rule->slots.end(),
                                 [](const SlotSpec& slot) { return slot.name == kLastStepSlot; });
  if (!waits) return "";
  return absl::StrCat("rows of ", Excerpt(variable.name()),
                      " wait for their next gradient (lazy_compensated), and Keras has no place "
                      "for the steps that they have missed");
}

// Returns why the state cannot be written, or "".
std::string WhyNot(const JobSpec& job, const TrainedState& state,
                   absl::Span<const proto::VariableLayout* const> trained, int keras) {
  if (trained.empty()) return "the job trains no variable";
  for (const proto::VariableLayout& layout : state.layouts) {
    if (layout.has_dynamic()) return "rows of a dynamic table have no place in such a file";
  }
  const proto::UpdateRule& rule = trained[0]->rule();
  if (!KerasSlotsOf(rule).has_value()) {
    return absl::StrCat("what Keras saves of the slots of ", job.compile.optimizer.class_name,
                        " is not known here");
  }
  for (const proto::VariableLayout* const variable : trained) {
    if (variable->rule().op() != rule.op()) {
      return "the job's optimizer updates its variables by several rules";
    }
    std::string why = WhyOtherThanKeras(*variable);
    if (!why.empty()) return why;
  }
  if (keras == 2 && ParameterOf(rule, "gradient_accumulation_steps") > 1) {
    return "Keras 2 has no gradient_accumulation_steps";
  }
  if (rule.op() == "nadam" && ParameterOf(rule, "schedule_decay") != 1) {
    return "Nadam with schedule_decay is one of Keras before 2.11";
  }
  const bool sums = rule.op() == "sgd" && ParameterOf(rule, "momentum_of_gradients") != 0;
  if (sums && !HasConstantRate(job)) {
    return "a sum of gradients (momentum_of_gradients) becomes Keras's momentum only with a "
           "constant learning rate";
  }
  return "";
}

// Lists the values of one optimizer. Lives for one call. Thread-compatible.
class Lister {
 public:
  Lister(const JobSpec& job, absl::Span<const proto::VariableLayout* const> trained, int keras)
      : job_(job), trained_(trained), rule_(trained[0]->rule()), keras_(keras) {}

  std::vector<KerasOptimizerValue> List() {
    AddScalar({.kind = Kind::kSteps,
               .tracked = {"_iterations"},
               .name = "global_step",
               .full_name = "iteration"});
    AddRate();
    const Groups groups = *KerasSlotsOf(rule_);
    for (const std::vector<KerasSlot>& group : groups) AddSlots(group, Kind::kSlot);
    // Keras 2 has the list without a momentum too.
    const bool is_plain = rule_.op() == "sgd" && ParameterOf(rule_, "momentum") == 0;
    if (keras_ == 2 && is_plain) AddSlots({KerasMomentumOfSgd()}, Kind::kZeros);
    if (rule_.op() == "nadam") {
      AddScalar({.kind = Kind::kProduct,
                 .is_numbered = keras_ == 3,
                 .tracked = {"_u_product"},
                 .name = "u_product",
                 .full_name = "u_product"});
    }
    return std::move(values_);
  }

 private:
  void AddScalar(KerasOptimizerValue value) { values_.push_back(std::move(value)); }

  void AddRate() {
    if (HasConstantRate(job_)) {
      AddScalar({.kind = Kind::kRate,
                 .is_numbered = keras_ == 3,
                 .tracked = {"_learning_rate"},
                 .name = "learning_rate",
                 .full_name = "learning_rate"});
    } else if (keras_ == 2) {
      AddScalar({.kind = Kind::kRate,
                 .is_numbered = false,
                 .tracked = {"_current_learning_rate"},
                 .name = "current_learning_rate",
                 .full_name = "current_learning_rate"});
    }
  }

  // Adds slots that alternate, variable by variable.
  void AddSlots(const std::vector<KerasSlot>& group, Kind kind) {
    for (size_t i = 0; i < trained_.size(); ++i) {
      for (const KerasSlot& slot : group) {
        KerasOptimizerValue& value = values_.emplace_back();
        value.kind = kind;
        value.variable = trained_[i];
        value.slot = slot.slot;
        if (slot.slot == "momentum") value.factor = MomentumFactor();
        if (!slot.list2.empty()) value.tracked.push_back(absl::StrCat(slot.list2, "/", i));
        if (slot.list3 != slot.list2) value.tracked.push_back(absl::StrCat(slot.list3, "/", i));
        value.name = absl::StrCat(trained_[i]->name(), kSlotInfix, rule_.op(), "/", slot.slot);
        value.full_name =
            absl::StrCat(job_.compile.optimizer.class_name, "/",
                         slot.keras2.empty() ? slot.keras3 : slot.keras2, "/", trained_[i]->name());
      }
    }
  }

  // Keras's momentum has the rate in it.
  float MomentumFactor() const {
    const bool sums = rule_.op() == "sgd" && ParameterOf(rule_, "momentum_of_gradients") != 0;
    return sums ? static_cast<float>(-job_.compile.optimizer.learning_rate) : 1.0F;
  }

  const JobSpec& job_;
  const absl::Span<const proto::VariableLayout* const> trained_;
  const proto::UpdateRule& rule_;
  const int keras_;
  std::vector<KerasOptimizerValue> values_;
};

// Returns the product of Nadam's momenta of the steps, in float32 as Keras multiplies it.
float ProductOfMomenta(const proto::UpdateRule& rule, int64_t steps) {
  const float beta_1 = static_cast<float>(ParameterOf(rule, "beta_1"));
  float product = 1;
  for (int64_t t = 1; t <= steps && product > 0; ++t) {
    const float decay = std::pow(0.96F, static_cast<float>(t));
    product *= beta_1 * (1.0F - 0.5F * decay);
  }
  return product;
}

}  // namespace

KerasOptimizer PlanKerasOptimizer(const JobSpec& job, const TrainedState& state,
                                  absl::Span<const std::string> order, int keras) {
  const std::vector<const proto::VariableLayout*> trained = TrainedOf(state, order);
  KerasOptimizer optimizer;
  optimizer.why_not = WhyNot(job, state, trained, keras);
  for (const proto::VariableLayout* const one : trained) optimizer.trained.push_back(one->name());
  if (optimizer.why_not.empty()) optimizer.values = Lister(job, trained, keras).List();
  return optimizer;
}

absl::StatusOr<Tensor> ReadOptimizerValue(const JobSpec& job, const TrainedState& state,
                                          const KerasOptimizerValue& value) {
  switch (value.kind) {
    case Kind::kSteps:
      return Tensor::Scalar<int64_t>(state.steps);
    case Kind::kRate:
      return Tensor::Scalar(static_cast<float>(LearningRateAt(job.compile.optimizer, state.steps)));
    case Kind::kProduct:
      for (const proto::VariableLayout& layout : state.layouts) {
        if (layout.rule().op() != "nadam") continue;
        return Tensor::Scalar(ProductOfMomenta(layout.rule(), state.steps));
      }
      return absl::InternalError("no variable is trained by Nadam");
    case Kind::kZeros: {
      const std::vector<int64_t> dims(value.variable->dims().begin(), value.variable->dims().end());
      return Tensor::Zeros(DType::kFloat32, Shape(dims));
    }
    case Kind::kSlot:
      break;
  }
  ASSIGN_OR_RETURN(Tensor content, state.read_slot(*value.variable, value.slot));
  if (value.factor == 1) return content;
  Tensor scaled(DType::kFloat32, content.shape());
  const absl::Span<const float> from = content.span<float>();
  for (size_t i = 0; i < from.size(); ++i) scaled.mutable_data<float>()[i] = from[i] * value.factor;
  return scaled;
}

}  // namespace cohort
