#include "tests/unit/common/runtime/random_updates.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/sequence_rng.h"

namespace cohort {

Parameters RandomParameters(const std::string& op, SequenceRng& rng) {
  const auto pick = [&](std::vector<double> values) { return values[rng.Below(values.size())]; };
  Parameters p;
  for (const RuleParameter& parameter : ParametersOf(op)) {
    if (parameter.rare) continue;  // not of a formula of its own
    double value = parameter.otherwise;
    if (parameter.range == ParameterRange::kFlag) value = pick({0, 1});
    if (parameter.name == "momentum" || parameter.name == "rho") value = pick({0.5, 0.9, 0.99});
    if (parameter.name == "momentum" && rng.Below(3) == 0) value = 0;
    if (parameter.name == "beta_1") value = pick({0.5, 0.9, 0.95});
    if (parameter.name == "beta_2") value = pick({0.96, 0.99, 0.999});
    if (parameter.name == "epsilon") value = pick({1e-7, 1e-4, 1e-2});
    if (parameter.name == "learning_rate_power") value = pick({-0.5, -0.5, -0.75, 0});
    if (parameter.name == "beta") value = pick({0, 1});
    if (parameter.name.find("l1_") == 0 || parameter.name.find("l2_") == 0) {
      value = pick({0, 0.01, 0.1});
    }
    if (parameter.name == "weight_decay") value = pick({0, 0, 0.1});
    if (parameter.name == "use_ema") value = 0;  // not of a formula of its own
    p[parameter.name] = value;
  }
  return p;
}

proto::UpdateRule RuleOf(const std::string& op, const Parameters& parameters) {
  proto::UpdateRule rule;
  rule.set_op(op);
  for (const auto& [name, value] : parameters) {
    rule.add_parameters()->set_name(name);
    rule.mutable_parameters()->rbegin()->set_value(value);
  }
  return rule;
}

void RandomState(const UpdateRuleSpec& spec, SequenceRng& rng, Element& e) {
  const RandomStream random(rng.Next(), "state");
  uint64_t next = 0;
  const auto normal = [&] { return static_cast<float>(random.Normal(next++)); };
  e.g = normal();
  e.v = normal();
  e.slots.clear();
  for (const SlotSpec& slot : spec.slots) {
    const bool has_sign = slot.name == "m" || slot.name == "momentum" || slot.name == "linear";
    double value = has_sign ? normal() : 0.01 + std::abs(normal());
    if (slot.name == "average_gradient") {
      value = std::sqrt(e.slots[0]) * std::clamp<double>(normal(), -0.7, 0.7);
    }
    e.slots.push_back(static_cast<float>(value));
  }
}

double SlotTolerance(const RuleFormula& rule, const SlotSpec& slot, const Step& step,
                     const Element& e, size_t index) {
  const double size = std::max({std::abs(e.slots[index]), std::abs(e.g), std::abs(e.v), 1.0}) +
                      (slot.name == "linear" ? e.scale / step.lr * 10 : 0);
  return rule.units * kUnit * size * 8;
}

}  // namespace cohort
