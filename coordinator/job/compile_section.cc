#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/losses/read_loss.h"
#include "coordinator/metrics/read_metrics.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kStepsPerExecutionMax = 4096;
constexpr NumberRange kWeight = {.min = 0};

// Returns whether the value is an object that has an entry for each output, not a class form.
bool IsByOutput(const json& value) { return value.is_object() && !value.contains("class_name"); }

// Reads a value that Keras takes once, in a list with one for each output, or in an object by the
// outputs' names, with `read(place, output)`.
template <typename Read>
void ReadByOutput(const JsonPlace& place, std::vector<OutputSpec>& outputs, Read read) {
  const json& value = *place.value;
  const bool by_name = IsByOutput(value);
  if (!by_name && !value.is_array()) return read(place, outputs.front());
  if (value.size() != 1) {
    return place.errors.Add(place.path, absl::StrCat("has ", value.size(),
                                                     " entries, but the model has 1 output; give "
                                                     "one entry"));
  }
  std::string key = "0";
  if (by_name) {
    key = value.begin().key();
    if (!outputs.front().name.empty() && outputs.front().name != key) {
      return place.errors.Add(
          place.path,
          absl::StrCat("names the output '", Excerpt(key), "', and compile.loss '",
                       Excerpt(outputs.front().name), "'; give both the model's output"));
    }
    outputs.front().name = key;
  }
  read(JsonPlace{JoinKeys(place.path, Excerpt(key)), place.errors, &*value.begin()},
       outputs.front());
}

// Returns the place under which a value of an output is recorded: by its name, if the file has it.
JsonPlace RecordOf(const JsonPlace& place, const OutputSpec& output) {
  if (output.name.empty()) return place;
  *place.record = ordered_json::object();
  return {place.path, place.errors, nullptr, &(*place.record)[output.name]};
}

void ReadLosses(const JsonPlace& place, int keras, std::vector<OutputSpec>& outputs) {
  if (place.record != nullptr) {
    OutputSpec& output = outputs.front();
    ReadLoss(RecordOf(place, output), keras, output.loss);
    return;
  }
  ReadByOutput(place, outputs, [&](const JsonPlace& one, OutputSpec& output) {
    ReadLoss(one, keras, output.loss);
  });
}

void ReadLossWeights(ObjectReader& reader, std::vector<OutputSpec>& outputs) {
  constexpr char kKey[] = "loss_weights";
  const std::optional<JsonPlace> place =
      reader.Given(kKey, outputs.front().loss_weight != 1) ? reader.Place(kKey) : std::nullopt;
  if (!place) return;
  if (place->record != nullptr) {
    *RecordOf(*place, outputs.front()).record = outputs.front().loss_weight;
    return;
  }
  ReadByOutput(*place, outputs, [&](const JsonPlace& one, OutputSpec& output) {
    const bool fits = one.value->is_number() && one.value->get<double>() >= kWeight.min;
    if (fits) {
      output.loss_weight = one.value->get<double>();
    } else {
      one.errors.Add(one.path, absl::StrCat("is ", JsonExcerpt(*one.value),
                                            "; it must be a number of at least 0"));
    }
  });
}

// Reads `metrics`, or `weighted_metrics`. Without an output's name the list may be that of the only
// output, or a list of one such list.
void ReadMetricLists(ObjectReader& reader, const char* key, const MetricListOptions& options,
                     std::vector<OutputSpec>& outputs) {
  std::vector<MetricSpec>& metrics = outputs.front().metrics;
  const bool has_any =
      !options.weighted ||
      std::any_of(metrics.begin(), metrics.end(), [](const auto& one) { return one.weighted; });
  if (!reader.Given(key, has_any)) return;
  const JsonPlace place = *reader.Place(key);
  if (place.record != nullptr) {
    return RecordMetrics(RecordOf(place, outputs.front()), options.weighted, metrics);
  }
  const json& value = *place.value;
  const bool is_list_of_lists = value.is_array() && !value.empty() && value.front().is_array();
  if (!is_list_of_lists && !IsByOutput(value)) return ReadMetrics(place, options, metrics);
  ReadByOutput(place, outputs, [&](const JsonPlace& one, OutputSpec& output) {
    // By an output's name, a metric may stand alone.
    const json alone = json::array({*one.value});
    const JsonPlace list = {one.path, one.errors, one.value->is_array() ? one.value : &alone};
    ReadMetrics(list, options, output.metrics);
  });
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

void ReadCompile(ObjectReader& reader, int keras, CompileSpec& compile) {
  const json rmsprop = "rmsprop";  // Keras's default optimizer
  const JsonPlace otherwise = {JoinKeys(reader.path(), "optimizer"), reader.errors(), &rmsprop};
  ReadOptimizer(reader.Place("optimizer").value_or(otherwise), keras, compile.optimizer);
  reader.Require("loss");
  if (const auto loss = reader.Place("loss")) ReadLosses(*loss, keras, compile.outputs);
  // A metric must not hide one of the numbers that every step reports.
  std::set<std::string> taken = {"loss", "loss_sum", "count"};
  ReadMetricLists(reader, "metrics", {keras, false, taken}, compile.outputs);
  ReadLossWeights(reader, compile.outputs);
  ReadMetricLists(reader, "weighted_metrics", {keras, true, taken}, compile.outputs);
  // Keys of Keras's compile() that are accepted only if they change nothing.
  reader.OnlyNeutral("run_eagerly", false);
  reader.OnlyNeutral("auto_scale_loss", true);
  ReadStepsPerExecution(reader, compile);
  reader.Ignore("jit_compile");
}

}  // namespace cohort
