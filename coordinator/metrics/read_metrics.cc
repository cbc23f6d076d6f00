#include "coordinator/metrics/read_metrics.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool HasKey(const MetricRow& row, absl::string_view key) {
  return std::any_of(row.keys.begin(), row.keys.end(),
                     [&](const ConfigKey& one) { return one.name == key; });
}

// Returns the function of a MeanMetricWrapper, as which Keras 2 writes a metric that compile() was
// given by a name: {"class_name": "MeanMetricWrapper", "config": {"fn": "binary_accuracy"}}. Keras
// 3 writes one that was made of a function and its arguments. Returns the name of any other class
// as it is.
std::string NameIn(const ClassForm& form) {
  const bool is_wrapper = form.class_name == "MeanMetricWrapper" && form.config != nullptr &&
                          form.config->is_object() && form.config->contains("fn");
  if (!is_wrapper) return form.class_name;
  return FunctionName((*form.config)["fn"]).value_or(form.class_name);
}

const MetricRow* FindRow(const ClassForm& form, const JsonPlace& place) {
  if (const MetricRow* const row = FindMetricFunction(NameIn(form));
      row != nullptr && NameIn(form) != form.class_name) {
    return row;
  }
  const MetricRow* row = FindMetricClass(form.class_name);
  if (row == nullptr) row = FindMetricFunction(form.class_name);
  if (row != nullptr) return row;
  std::vector<std::string> names;
  for (const MetricRow& one : MetricTable()) {
    names.push_back(form.is_name_only ? one.names.front() : one.class_name);
  }
  place.errors.Add(place.path, UnknownName("metric", form.class_name, names));
  return nullptr;
}

// Reads or records the keys of a config.
void ReadFields(ObjectReader& config, const MetricRow& row, int keras, MetricSpec& spec) {
  config.String("name", &spec.name);
  std::string function = row.names.front();
  if (config.recording()) {
    if (spec.keras == 2) config.String("fn", &function);
  } else if (const json* const given = config.Find("fn")) {
    config.Function("fn", &function);
    if (std::find(row.names.begin(), row.names.end(), function) == row.names.end()) {
      config.AddError("fn",
                      absl::StrCat("is ", JsonExcerpt(function), ", which is not the function of ",
                                   row.class_name, "; leave it out"));
    }
    // Keras 2 writes the function's name, so its formula counts; Keras 3 writes a class form.
    if (keras == 0 && given->is_string()) spec.keras = 2;
  }
  ReadConfigKeys(config, row.keys, spec.config);
  if (!HasKey(row, "dtype")) config.OnlyNeutral("dtype", "float32");
  config.Finish();
}

// Returns the name under which a metric is reported that the file gives as a name only. As in
// Keras, "mae" stays "mae"; the name of a class, "AUC", stays in Keras 3 and becomes "auc" in Keras
// 2.
std::string NameOf(const MetricRow& row, const std::string& given, int keras) {
  const bool is_name = std::find(row.names.begin(), row.names.end(), given) != row.names.end();
  return is_name || keras >= 3 ? given : row.names.front();
}

std::optional<MetricSpec> ReadMetric(const JsonPlace& place, const MetricListOptions& options) {
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return std::nullopt;
  const MetricRow* const row = FindRow(form, place);
  if (row == nullptr) return std::nullopt;
  MetricSpec spec = DefaultMetric(*row, options.keras == 0 ? kKerasOtherwise : options.keras);
  spec.weighted = options.weighted;
  const bool is_given = form.is_name_only || spec.keras == 2 || IsByShape(spec);
  spec.name = is_given ? NameOf(*row, form.class_name, spec.keras) : row->names.front();
  ObjectReader config = form.Config("");
  ReadFields(config, *row, options.keras, spec);
  const std::string wrong = row->check == nullptr ? "" : row->check(spec.config);
  if (!wrong.empty()) {
    place.errors.Add(place.path, absl::StrCat("'", Excerpt(form.class_name), "' ", wrong));
  }
  return spec;
}

ordered_json ToJson(const MetricSpec& metric, JsonErrors& errors) {
  const MetricRow& row = RowOf(metric);
  const bool is_default = metric.config == ClassConfig::Default(row.keys) &&
                          metric.keras == kKerasOtherwise &&
                          FindMetricFunction(metric.name) == &row;
  // A metric with Keras's defaults is written as its name.
  if (is_default) return metric.name;
  ordered_json form;
  const ClassForm recorded{{"", errors, nullptr, &form}, row.class_name, nullptr, ""};
  ObjectReader config = recorded.Config(row.class_name);
  MetricSpec same = metric;
  ReadFields(config, row, metric.keras, same);
  return form;
}

}  // namespace

void ReadMetrics(const JsonPlace& place, const MetricListOptions& options,
                 std::vector<MetricSpec>& metrics) {
  if (!place.value->is_array()) {
    return place.errors.Add(place.path, absl::StrCat("is ", JsonExcerpt(*place.value),
                                                     "; it must be a list such as [\"accuracy\"]"));
  }
  for (size_t i = 0; i < place.value->size(); ++i) {
    const std::string item_path = JoinKeys(place.path, absl::StrCat(i));
    std::optional<MetricSpec> metric =
        ReadMetric({item_path, place.errors, &(*place.value)[i]}, options);
    if (!metric) continue;
    if (!options.taken.insert(metric->name).second) {
      place.errors.Add(item_path, absl::StrCat("the name '", metric->name,
                                               "' is taken; give this metric another config.name"));
    }
    metrics.push_back(*std::move(metric));
  }
}

void RecordMetrics(const JsonPlace& place, bool weighted, const std::vector<MetricSpec>& metrics) {
  *place.record = ordered_json::array();
  for (const MetricSpec& metric : metrics) {
    if (metric.weighted == weighted) place.record->push_back(ToJson(metric, place.errors));
  }
}

}  // namespace cohort
