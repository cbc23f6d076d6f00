#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kStepsPerExecutionMax = 4096;
// The interval [0, 1).
constexpr NumberRange kFraction = {.min = 0, .max = 1, .max_excluded = true};

struct LossClass {
  LossKind kind;
  const char* class_name;
  const char* function_name;
};

constexpr LossClass kLosses[] = {
    {LossKind::kCategoricalCrossentropy, "CategoricalCrossentropy", "categorical_crossentropy"},
    {LossKind::kSparseCategoricalCrossentropy, "SparseCategoricalCrossentropy",
     "sparse_categorical_crossentropy"},
};

// Reads a loss from its name or its class form.
void ReadLoss(const JsonPlace& place, LossSpec& spec) {
  const ClassForm form = ReadClassForm(place, kLosses[static_cast<size_t>(spec.kind)].class_name);
  // A wrong form has been reported already, so the default stands in for it.
  if (!form.ok()) return;
  const LossClass* found = nullptr;
  std::vector<std::string> names;
  for (const LossClass& one : kLosses) {
    names.push_back(form.is_name_only ? one.function_name : one.class_name);
    if (form.class_name == one.class_name || form.class_name == one.function_name) found = &one;
  }
  if (found == nullptr) {
    return place.errors.Add(place.path, UnknownName("loss", form.class_name, names));
  }
  spec.kind = found->kind;
  ObjectReader config = form.Config(found->class_name);
  config.Bool("from_logits", &spec.from_logits);
  if (spec.kind == LossKind::kCategoricalCrossentropy) {
    config.Number("label_smoothing", kFraction, &spec.label_smoothing);
    config.OnlyNeutral("axis", -1);
  } else {
    config.OnlyNeutral("ignore_class", nullptr);
  }
  // Both accepted reductions mean the mean over the batch, so the choice is not kept.
  std::string reduction;
  config.Choice("reduction", {"sum_over_batch_size", "auto"}, &reduction);
  config.Ignore("name");
  config.OnlyNeutral("fn", found->function_name);
  config.OnlyNeutral("dtype", "float32");
  config.Finish();
}

struct MetricClass {
  MetricKind kind;
  const char* class_name;  // "" if Keras has only the string form
  const char* short_name;
};

constexpr MetricClass kMetrics[] = {
    {MetricKind::kAccuracy, "", "accuracy"},
    {MetricKind::kAccuracy, "", "acc"},
    {MetricKind::kCategoricalAccuracy, "CategoricalAccuracy", "categorical_accuracy"},
    {MetricKind::kSparseCategoricalAccuracy, "SparseCategoricalAccuracy",
     "sparse_categorical_accuracy"},
};

std::optional<MetricSpec> ReadMetric(const JsonPlace& place) {
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return std::nullopt;
  std::vector<std::string> names;
  for (const MetricClass& one : kMetrics) {
    const bool matches =
        form.class_name == one.short_name || (*one.class_name && form.class_name == one.class_name);
    // The known names that an error lists have the form that the user wrote.
    names.push_back(*one.class_name && !form.is_name_only ? one.class_name : one.short_name);
    if (!matches) continue;
    MetricSpec spec{.kind = one.kind, .name = one.short_name};
    ObjectReader config = form.Config("");
    config.String("name", &spec.name);
    config.OnlyNeutral("fn", one.short_name);
    config.OnlyNeutral("dtype", "float32");
    config.Finish();
    return spec;
  }
  place.errors.Add(place.path, UnknownName("metric", form.class_name, names));
  return std::nullopt;
}

ordered_json ToJson(const MetricSpec& metric) {
  std::string class_name;
  for (const MetricClass& one : kMetrics) {
    if (one.kind != metric.kind) continue;
    // The short name alone is enough if the metric has its default name.
    if (metric.name == one.short_name) return metric.name;
    if (class_name.empty()) class_name = *one.class_name ? one.class_name : one.short_name;
  }
  return {{"class_name", class_name}, {"config", {{"name", metric.name}}}};
}

void ReadMetrics(const JsonPlace& place, std::vector<MetricSpec>& metrics) {
  if (place.record != nullptr) {
    *place.record = ordered_json::array();
    for (const MetricSpec& metric : metrics) place.record->push_back(ToJson(metric));
    return;
  }
  if (!place.value->is_array()) {
    return place.errors.Add(place.path, absl::StrCat("is ", JsonExcerpt(*place.value),
                                                     "; it must be a list such as [\"accuracy\"]"));
  }
  // A metric must not hide one of the numbers that every step reports.
  std::set<std::string> names = {"loss", "loss_sum", "count"};
  for (size_t i = 0; i < place.value->size(); ++i) {
    const std::string item_path = JoinPath(place.path, absl::StrCat(i));
    std::optional<MetricSpec> metric = ReadMetric({item_path, place.errors, &(*place.value)[i]});
    if (!metric) continue;
    if (!names.insert(metric->name).second) {
      place.errors.Add(item_path, absl::StrCat("the name '", metric->name,
                                               "' is taken; give this metric another config.name"));
    }
    metrics.push_back(*std::move(metric));
  }
}

void ReadStepsPerExecution(ObjectReader& reader, CompileSpec& compile) {
  constexpr char kKey[] = "steps_per_execution";
  const json* const steps = reader.Find(kKey);
  if (steps != nullptr && steps->is_string() && steps->get<std::string>() == "auto") {
    return reader.AddError(
        kKey,
        "is 'auto': Keras tunes it by the wall clock, and a run that is repeated "
        "would be another one; write a number of steps, such as 8");
  }
  reader.Int(kKey, {.min = 1, .max = kStepsPerExecutionMax}, &compile.steps_per_execution);
}

}  // namespace

absl::string_view LossName(LossKind kind) {
  return kLosses[static_cast<size_t>(kind)].function_name;
}

void ReadCompile(ObjectReader& reader, CompileSpec& compile) {
  const json rmsprop = "rmsprop";  // Keras's default optimizer
  const JsonPlace otherwise = {JoinPath(reader.path(), "optimizer"), reader.errors(), &rmsprop};
  ReadOptimizer(reader.Place("optimizer").value_or(otherwise), compile.optimizer);
  reader.Require("loss");
  if (const auto loss = reader.Place("loss")) ReadLoss(*loss, compile.loss);
  if (const auto metrics = reader.Place("metrics")) ReadMetrics(*metrics, compile.metrics);
  // Keys of Keras's compile() that are accepted only if they change nothing.
  reader.OnlyNeutral("loss_weights", nullptr);
  reader.OnlyNeutral("weighted_metrics", nullptr);
  reader.OnlyNeutral("run_eagerly", false);
  ReadStepsPerExecution(reader, compile);
  reader.Ignore("jit_compile");
}

}  // namespace cohort
