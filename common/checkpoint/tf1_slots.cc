#include "common/checkpoint/tf1_slots.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"

namespace cohort {

namespace {

// float32 powers below this one have too few digits to count steps with.
constexpr double kPowerMin = 1e-30;

}  // namespace

std::vector<Tf1Slot> Tf1SlotsOf(const Tf1Rule& rule) {
  if (rule.op == "sgd") return {{"momentum", "/Momentum", Tf1SlotValue::kTimesNegativeRate}};
  if (rule.op == "adam") return {{"m", "/Adam"}, {"v", "/Adam_1"}};
  if (rule.op == "rmsprop") {
    if (!rule.centered) return {{"velocity", "/RMSProp"}, {"momentum", "/RMSProp_1"}};
    return {
        {"velocity", "/RMSProp"}, {"average_gradient", "/RMSProp_1"}, {"momentum", "/RMSProp_2"}};
  }
  if (rule.op == "adagrad") return {{"accumulator", "/Adagrad"}};
  if (rule.op == "ftrl") return {{"accumulator", "/Ftrl"}, {"linear", "/Ftrl_1"}};
  if (rule.op == "adadelta") {
    return {{"accumulated_grad", "/Adadelta"}, {"accumulated_delta_var", "/Adadelta_1"}};
  }
  return {};
}

std::optional<Tf1SlotName> ParseTf1SlotName(const Tf1Rule& rule, absl::string_view tensor) {
  for (Tf1Slot& slot : Tf1SlotsOf(rule)) {
    if (tensor.size() <= slot.suffix.size() || !absl::EndsWith(tensor, slot.suffix)) continue;
    return Tf1SlotName{std::string(tensor.substr(0, tensor.size() - slot.suffix.size())),
                       std::move(slot)};
  }
  return std::nullopt;
}

std::optional<int64_t> Tf1StepsOfPower(double beta2_power, double beta_2) {
  const bool counts = beta_2 > 0 && beta_2 < 1 && beta2_power > kPowerMin && beta2_power < 1;
  if (!counts) return std::nullopt;
  const double steps = std::log(beta2_power) / std::log(beta_2) - 1;
  const double whole = std::round(steps);
  // The power of a float32 is off by some thousandths of a step at most.
  if (whole < 0 || std::fabs(steps - whole) > 0.25) return std::nullopt;
  return static_cast<int64_t>(whole);
}

}  // namespace cohort
