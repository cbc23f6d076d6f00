#include "coordinator/train/keras_slots.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/program/update_rule.h"

namespace cohort {

namespace {

using Groups = std::vector<std::vector<KerasSlot>>;

// Returns the slots that Keras gives to the optimizer, without those of gradient accumulation and
// moving averages. Slots that only some configurations have are left out if the rule lacks them.
std::optional<Groups> OwnSlotsOf(const proto::UpdateRule& rule) {
  const std::string& op = rule.op();
  const auto has = [&](const char* name) { return ParameterOf(rule, name) > 0; };
  const KerasSlot m = {"m", "m", "momentum", "m"};
  const KerasSlot v = {"v", "v", "velocity", "v"};
  const KerasSlot momentum = {"momentum", "momentum", "momentum", "momentum"};
  const KerasSlot accumulator = {"accumulator", "accumulator", "accumulator", "accumulator"};
  if (op == "sgd") {
    return has("momentum") ? Groups{{{"momentum", "m", "momentum", "momentum"}}} : Groups();
  }
  if (op == "adam") {
    Groups groups = {{m, v}};
    if (has("amsgrad")) groups.push_back({{"vhat", "vhat", "velocity_hat", "vhat"}});
    return groups;
  }
  if (op == "nadam") return Groups{{m, v}};
  if (op == "adamax") return Groups{{m, {"u", "u", "norm", "v"}}};
  if (op == "rmsprop") {
    Groups groups = {{{"velocity", "velocity", "velocity", "rms"}}};
    if (has("momentum")) groups.push_back({momentum});
    if (has("centered")) {
      groups.push_back({{"average_gradient", "average_gradient", "average_gradient", "mg"}});
    }
    return groups;
  }
  if (op == "adagrad") return Groups{{accumulator}};
  if (op == "ftrl") return Groups{{accumulator, {"linear", "linear", "linear", "linear"}}};
  if (op == "adadelta") {
    return Groups{
        {{"accumulated_grad", "accumulated_grad", "accumulated_grad", "accum_grad"},
         {"accumulated_delta_var", "accumulated_delta_var", "accumulated_delta_var", "accum_var"}}};
  }
  if (op == "lion") return Groups{{{"m", "m", "momentum", ""}}};
  return std::nullopt;
}

}  // namespace

std::optional<Groups> KerasSlotsOf(const proto::UpdateRule& rule) {
  std::optional<Groups> groups = OwnSlotsOf(rule);
  if (!groups.has_value()) return std::nullopt;
  // Keras creates the moving averages first, and then the sums of gradients.
  Groups before;
  if (ParameterOf(rule, "use_ema") > 0)
    before.push_back({{kAverageSlot, "average", "average", ""}});
  if (ParameterOf(rule, "gradient_accumulation_steps") > 1) {
    before.push_back({{kAccumulatorSlot, "", "gradient_accumulator", ""}});
  }
  groups->insert(groups->begin(), before.begin(), before.end());
  return groups;
}

std::string OpOfKerasOptimizer(absl::string_view name) {
  // Keras numbers optimizers of one class: "adam", "adam_1".
  const size_t number = name.find_last_not_of("0123456789");
  if (number != absl::string_view::npos && number + 1 < name.size() && name[number] == '_') {
    name = name.substr(0, number);
  }
  std::string letters;
  for (const char c : name) {
    if (c != '_') letters.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array<std::pair<absl::string_view, absl::string_view>, 10> kNames = {
      {{"sgd", "sgd"},
       {"adam", "adam"},
       {"adamw", "adam"},
       {"nadam", "nadam"},
       {"adamax", "adamax"},
       {"rmsprop", "rmsprop"},
       {"adagrad", "adagrad"},
       {"adadelta", "adadelta"},
       {"ftrl", "ftrl"},
       {"lion", "lion"}}};
  const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                         [&](const auto& one) { return one.first == letters; });
  return found == kNames.end() ? "" : std::string(found->second);
}

}  // namespace cohort
