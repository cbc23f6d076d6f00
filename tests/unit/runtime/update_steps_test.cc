// A million random steps: every rule, with random hyper-parameters, from random values and slots,
// against its formula in double. The errors allowed are those that update_loops.h documents.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/program/update_rule.h"
#include "common/runtime/update_kernel.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

constexpr double kUnit = 1.0 / (1 << 24);  // half a unit of the last place of 1 in float32
constexpr size_t kElements = 9;  // a vector and a rest
constexpr uint64_t kStepMax = 2000;
constexpr int kStepsOfAll = 1'000'000;

using Parameters = std::map<std::string, double>;

// One element before the step, and what the formula makes of it.
struct Element {
  double g = 0;
  double v = 0;
  std::vector<double> slots;
  double scale = 0;  // the largest of what is added up to the next v
};

struct Step {
  Parameters p;
  double lr = 0;
  double t = 1;
};

using Formula = std::function<void(const Step&, Element&)>;

// v - change, whose parts are at most `parts` in size.
void Subtract(Element& e, double change, double parts) {
  e.scale = std::abs(e.v) + std::abs(parts);
  e.v -= change;
}

void Sgd(const Step& s, Element& e) {
  const double momentum = s.p.at("momentum");
  if (momentum == 0) return Subtract(e, s.lr * e.g, s.lr * e.g);
  double& m = e.slots[0];
  const bool sums = s.p.at("momentum_of_gradients") != 0;
  const double added = sums ? e.g : -s.lr * e.g;
  const double parts = momentum * std::abs(m) + std::abs(added);
  m = momentum * m + added;
  const double moved = s.p.at("nesterov") != 0 ? momentum * m + added : m;
  const double rate = sums ? s.lr : -1;
  Subtract(e, rate * moved, rate * (parts + std::abs(added)));
}

double Root(const Step& s, double x) {
  const double epsilon = s.p.at("epsilon");
  return s.p.at("epsilon_outside_root") != 0 ? std::sqrt(x) + epsilon : std::sqrt(x + epsilon);
}

void Adagrad(const Step& s, Element& e) {
  e.slots[0] += e.g * e.g;
  const double change = s.lr * e.g / Root(s, e.slots[0]);
  Subtract(e, change, change);
}

void Rmsprop(const Step& s, Element& e) {
  const double rho = s.p.at("rho");
  size_t next = 1;
  double* const m = s.p.at("momentum") > 0 ? &e.slots[next++] : nullptr;
  double* const mean = s.p.at("centered") != 0 ? &e.slots[next] : nullptr;
  double& square = e.slots[0];
  square = rho * square + (1 - rho) * e.g * e.g;
  double variance = square;
  if (mean != nullptr) {
    *mean = rho * *mean + (1 - rho) * e.g;
    variance -= *mean * *mean;
  }
  double change = s.lr * e.g / Root(s, variance);
  // What the difference of square and mean loses.
  const double lost = mean != nullptr ? change * (square / variance) : change;
  double parts = std::abs(lost);
  if (m != nullptr) {
    parts += std::abs(s.p.at("momentum") * *m);
    change += s.p.at("momentum") * *m;
    *m = change;
  }
  Subtract(e, change, parts);
}

void Adam(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] += (e.g * e.g - e.slots[1]) * (1 - beta_2);
  double square = e.slots[1];
  if (s.p.at("amsgrad") != 0) square = e.slots[2] = std::max(e.slots[2], square);
  const double rate =
      s.lr * std::sqrt(1 - std::pow(beta_2, s.t)) / (1 - std::pow(beta_1, s.t)) /
      (std::sqrt(square) + s.p.at("epsilon"));
  Subtract(e, rate * e.slots[0], rate * parts);
}

void Adamax(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] = std::max(s.p.at("beta_2") * e.slots[1], std::abs(e.g));
  const double rate =
      s.lr / (1 - std::pow(beta_1, s.t)) / (e.slots[1] + s.p.at("epsilon"));
  Subtract(e, rate * e.slots[0], rate * parts);
}

void Nadam(const Step& s, Element& e) {
  const double beta_1 = s.p.at("beta_1");
  const double beta_2 = s.p.at("beta_2");
  const auto momentum = [&](double t) { return beta_1 * (1 - 0.5 * std::pow(0.96, t)); };
  static const std::vector<double> products = [] {
    std::vector<double> result = {1};
    while (result.size() <= kStepMax) {
      const double t = static_cast<double>(result.size());
      result.push_back(result.back() * (1 - 0.5 * std::pow(0.96, t)));
    }
    return result;
  }();
  const double product = std::pow(beta_1, s.t) * products[static_cast<size_t>(s.t)];
  const double parts = std::max(std::abs(e.slots[0]), std::abs(e.g));
  e.slots[0] += (e.g - e.slots[0]) * (1 - beta_1);
  e.slots[1] += (e.g * e.g - e.slots[1]) * (1 - beta_2);
  const double next = momentum(s.t + 1);
  const double of_m = next / (1 - product * next);
  const double of_g = (1 - momentum(s.t)) / (1 - product);
  const double root = std::sqrt(e.slots[1] / (1 - std::pow(beta_2, s.t))) + s.p.at("epsilon");
  Subtract(e, s.lr * (of_m * e.slots[0] + of_g * e.g) / root,
           s.lr * (of_m + of_g) * parts / root);
}

void Adadelta(const Step& s, Element& e) {
  const double rho = s.p.at("rho");
  const double epsilon = s.p.at("epsilon");
  e.slots[0] = rho * e.slots[0] + (1 - rho) * e.g * e.g;
  const double delta = e.g * std::sqrt(e.slots[1] + epsilon) / std::sqrt(e.slots[0] + epsilon);
  e.slots[1] = rho * e.slots[1] + (1 - rho) * delta * delta;
  Subtract(e, s.lr * delta, s.lr * delta);
}

void Ftrl(const Step& s, Element& e) {
  const double power = -s.p.at("learning_rate_power");
  const double l1 = s.p.at("l1_regularization_strength");
  const double l2 = s.p.at("l2_regularization_strength") + s.p.at("beta") / (2 * s.lr);
  const double shrunk = e.g + 2 * s.p.at("l2_shrinkage_regularization_strength") * e.v;
  const double sum = e.slots[0] + e.g * e.g;
  const double root = std::pow(sum, power) / s.lr;
  const double sigma = root - std::pow(e.slots[0], power) / s.lr;
  const double parts = std::abs(e.slots[1]) + std::abs(shrunk) + root * std::abs(e.v) + l1;
  e.slots[0] = sum;
  e.slots[1] += shrunk - sigma * e.v;
  const double divisor = root + 2 * l2;
  e.v = (std::clamp(e.slots[1], -l1, l1) - e.slots[1]) / divisor;
  e.scale = parts / divisor;
}

// Those that the formula needs, in the ranges of use.
Parameters RandomParameters(const std::string& op, SequenceRng& rng) {
  const auto pick = [&](std::vector<double> values) { return values[rng.Below(values.size())]; };
  Parameters p;
  for (const RuleParameter& parameter : ParametersOf(op)) {
    double value = parameter.otherwise;
    if (parameter.range == ParameterRange::kFlag) value = pick({0, 1});
    if (parameter.name == "momentum" || parameter.name == "rho") value = pick({0.5, 0.9, 0.99});
    if (parameter.name == "momentum" && rng.Below(3) == 0) value = 0;
    if (parameter.name == "beta_1") value = pick({0.5, 0.9, 0.95});
    if (parameter.name == "beta_2") value = pick({0.9, 0.99, 0.999});
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

// Squares of a mean of 0.7 at most of their root; all else of a size around 1.
void RandomState(const UpdateRuleSpec& spec, SequenceRng& rng, Element& e) {
  const RandomStream random(rng.Next(), "state");
  uint64_t next = 0;
  const auto normal = [&] { return static_cast<float>(random.Normal(next++)); };
  e.g = normal();
  e.v = normal();
  e.slots.clear();
  for (const SlotSpec& slot : spec.slots) {
    const bool has_sign =
        slot.name == "m" || slot.name == "momentum" || slot.name == "linear";
    double value = has_sign ? normal() : 0.01 + std::abs(normal());
    if (slot.name == "average_gradient") {
      value = std::sqrt(e.slots[0]) * std::clamp<double>(normal(), -0.7, 0.7);
    }
    e.slots.push_back(static_cast<float>(value));
  }
}

struct RuleFormula {
  const char* op;
  Formula formula;
  double units = 5;  // allowed, in half units of the last place of the largest part of v
};

// One step for kElements elements. The largest error of a v in units of its scale.
double ErrorOfStep(const RuleFormula& rule, SequenceRng& rng) {
  Step step;
  step.p = RandomParameters(rule.op, rng);
  step.lr = std::pow(10, -3 + 3 * RandomStream(rng.Next(), "rate").Uniform(0));
  step.t = static_cast<double>(1 + rng.Below(rng.Below(10) == 0 ? kStepMax : 20));
  proto::UpdateRule proto;
  proto.set_op(rule.op);
  for (const auto& [name, value] : step.p) {
    proto.add_parameters()->set_name(name);
    proto.mutable_parameters()->rbegin()->set_value(value);
  }
  const UpdateRuleSpec spec = *DescribeUpdateRule(proto);
  std::vector<Element> elements(kElements);
  std::vector<float> gradient;
  std::vector<float> value;
  std::vector<std::vector<float>> slots(spec.slots.size());
  for (Element& e : elements) {
    RandomState(spec, rng, e);
    gradient.push_back(static_cast<float>(e.g));
    value.push_back(static_cast<float>(e.v));
    for (size_t i = 0; i < slots.size(); ++i) slots[i].push_back(static_cast<float>(e.slots[i]));
  }
  UpdateStep update = {gradient, value, absl::MakeSpan(value), {}, step.lr,
                       static_cast<uint64_t>(step.t)};
  for (std::vector<float>& slot : slots) update.slots.push_back({slot, absl::MakeSpan(slot)});
  (*MakeUpdateKernel(proto))->Apply(update);
  double largest = 0;
  for (size_t i = 0; i < kElements; ++i) {
    Element& e = elements[i];
    e.v -= e.v * step.p.at("weight_decay") * step.lr;
    rule.formula(step, e);
    largest = std::max(largest, std::abs(value[i] - e.v) / (kUnit * e.scale));
    for (size_t k = 0; k < slots.size(); ++k) {
      const double size = std::max({std::abs(e.slots[k]), std::abs(e.g), std::abs(e.v), 1.0}) +
                          (spec.slots[k].name == "linear" ? e.scale / step.lr * 10 : 0);
      EXPECT_NEAR(slots[k][i], e.slots[k], rule.units * kUnit * size * 8)
          << rule.op << " " << spec.slots[k].name;
    }
  }
  return largest;
}

TEST(UpdateStepsTest, AMillionRandomStepsAreAsNearToTheFormulasAsDocumented) {
  const std::vector<RuleFormula> rules = {{"sgd", Sgd},       {"adagrad", Adagrad},
                                          {"rmsprop", Rmsprop}, {"adam", Adam},
                                          {"adamax", Adamax}, {"nadam", Nadam},
                                          {"adadelta", Adadelta}, {"ftrl", Ftrl, 6}};
  const int steps = kStepsOfAll / static_cast<int>(rules.size());
  for (const RuleFormula& rule : rules) {
    SequenceRng rng(7);
    double largest = 0;
    for (int i = 0; i < steps; ++i) largest = std::max(largest, ErrorOfStep(rule, rng));
    RecordProperty(rule.op, absl::StrCat(largest));
    EXPECT_LE(largest, rule.units) << rule.op;
  }
}

}  // namespace
}  // namespace cohort
