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
  const KerasSlot m = {"m", "m", "momentum", "m", "_momentums", "_momentums"};
  const KerasSlot v = {"v", "v", "velocity", "v", "_velocities", "_velocities"};
  const KerasSlot accumulator = {"accumulator", "accumulator",   "accumulator",
                                 "accumulator", "_accumulators", "_accumulators"};
  if (op == "sgd") {
    return has("momentum") ? Groups{{KerasMomentumOfSgd()}} : Groups();
  }
  if (op == "adam") {
    Groups groups = {{m, v}};
    if (has("amsgrad")) {
      groups.push_back(
          {{"vhat", "vhat", "velocity_hat", "vhat", "_velocity_hats", "_velocity_hats"}});
    }
    return groups;
  }
  if (op == "nadam") return Groups{{m, v}};
  if (op == "adamax") {
    return Groups{{{"m", "m", "momentum", "m", "_m", "_m"}, {"u", "u", "norm", "v", "_u", "_u"}}};
  }
  if (op == "rmsprop") {
    Groups groups = {{{"velocity", "velocity", "velocity", "rms", "_velocities", "_velocities"}}};
    if (has("momentum")) {
      groups.push_back(
          {{"momentum", "momentum", "momentum", "momentum", "_momentums", "_momentums"}});
    }
    if (has("centered")) {
      groups.push_back({{"average_gradient", "average_gradient", "average_gradient", "mg",
                         "_average_gradients", "_average_gradients"}});
    }
    return groups;
  }
  if (op == "adagrad") return Groups{{accumulator}};
  if (op == "ftrl") {
    return Groups{{accumulator, {"linear", "linear", "linear", "linear", "_linears", "_linears"}}};
  }
  if (op == "adadelta") {
    return Groups{{{"accumulated_grad", "accumulated_grad", "accumulated_grad", "accum_grad",
                    "_accumulated_grads", "_accumulated_grads"},
                   {"accumulated_delta_var", "accumulated_delta_var", "accumulated_delta_var",
                    "accum_var", "_accumulated_delta_vars", "_accumulated_delta_vars"}}};
  }
  if (op == "lion") return Groups{{{"m", "m", "momentum", "", "momentums", "_momentums"}}};
  return std::nullopt;
}

}  // namespace

KerasSlot KerasMomentumOfSgd() {
  return {"momentum", "m", "momentum", "momentum", "momentums", "momentums"};
}

std::optional<Groups> KerasSlotsOf(const proto::UpdateRule& rule) {
  std::optional<Groups> groups = OwnSlotsOf(rule);
  if (!groups.has_value()) return std::nullopt;
  // Keras creates the moving averages first, and then the sums of gradients.
  Groups before;
  if (ParameterOf(rule, "use_ema") > 0) {
    constexpr char kAverages[] = "_model_variables_moving_average";
    before.push_back({{kAverageSlot, "average", "average", "", kAverages, kAverages}});
  }
  if (ParameterOf(rule, "gradient_accumulation_steps") > 1) {
    before.push_back(
        {{kAccumulatorSlot, "", "gradient_accumulator", "", "", "_accumulated_gradients"}});
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
