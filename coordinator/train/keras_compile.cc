#include "coordinator/train/keras_compile.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace cohort {

namespace {

using nlohmann::ordered_json;

constexpr char kClass[] = "class_name";
constexpr char kConfig[] = "config";

// Returns an object as Keras from 2.13 on writes it. An ordered object moves its values when a key
// is added, so all keys are given at once.
ordered_json WithModule(const char* module, const ordered_json& form) {
  return {{"module", module},
          {kClass, form.at(kClass)},
          {kConfig, form.at(kConfig)},
          {"registered_name", nullptr}};
}

ordered_json OptimizerForm(ordered_json form) {
  ordered_json& config = form.at(kConfig);
  for (const char* const key : {"sparse_updates", "momentum_of_gradients", "epsilon_outside_root",
                                "ema_from_start", "exclude_from_weight_decay", "schedule_decay"}) {
    config.erase(key);
  }
  // Keras has null where a job has 0, but AdamW wants a number.
  for (const char* const key :
       {"weight_decay", "ema_overwrite_frequency", "gradient_accumulation_steps"}) {
    const bool is_number = key == std::string("weight_decay") && form.at(kClass) == "AdamW";
    if (!is_number && config.contains(key) && config[key] == 0) config[key] = nullptr;
  }
  ordered_json& rate = config.at("learning_rate");
  if (rate.is_object()) rate = WithModule("keras.optimizers.schedules", rate);
  return WithModule("keras.optimizers", form);
}

// Returns the losses: one, or those of the outputs by their names.
ordered_json LossForm(const ordered_json& loss) {
  if (loss.is_object() && loss.contains(kClass)) return WithModule("keras.losses", loss);
  if (!loss.is_object()) return loss;
  ordered_json by_output = ordered_json::object();
  for (const auto& item : loss.items()) by_output[item.key()] = LossForm(item.value());
  return by_output;
}

}  // namespace

std::string KerasCompileConfig(const JobSpec& job) {
  const ordered_json compile = ordered_json::parse(JobToJson(job)).at("compile");
  ordered_json form = {{"optimizer", OptimizerForm(compile.at("optimizer"))},
                       {"loss", LossForm(compile.at("loss"))}};
  for (const char* const key : {"loss_weights", "steps_per_execution"}) {
    if (compile.contains(key)) form[key] = compile[key];
  }
  return form.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace cohort
