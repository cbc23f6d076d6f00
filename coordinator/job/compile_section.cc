#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
// Names of numbers that every step reports, which no metric may have.
constexpr const char* kReported[] = {"loss", "loss_sum", "count"};

// Returns whether the value is an object with an entry per output, and not a class form.
bool IsByOutput(const json& value) { return value.is_object() && !value.contains("class_name"); }

// The outputs of the model while the section is read or recorded. Thread-compatible.
class OutputReader {
 public:
  OutputReader(const CompiledModel& model, std::vector<OutputSpec>& outputs)
      : model_(model), outputs_(outputs) {}

  bool is_one() const { return outputs_.size() == 1; }
  bool knows_outputs() const { return !model_.outputs.empty(); }

  // Reads a value that Keras takes in three forms: one value for all outputs, a list with a value
  // per output, or an object by the outputs' names. Calls `read(place, output's number)` for each
  // output.
  template <typename Read>
  void ReadEach(const JsonPlace& place, Read read) {
    const json& value = *place.value;
    if (IsByOutput(value)) return ReadByName(place, read);
    if (!value.is_array()) return ReadForAll(place, read);
    if (value.size() == outputs_.size()) {
      for (size_t i = 0; i < value.size(); ++i) {
        read(JsonPlace{JoinKeys(place.path, absl::StrCat(i)), place.errors, &value[i]}, i);
      }
      return;
    }
    // If the model could not be read, its outputs are not known.
    if (!knows_outputs()) return;
    place.errors.Add(place.path,
                     absl::StrCat("has ", value.size(), " entries, but the model has ", Outputs()));
  }

  // Reads one value for all outputs. Its errors are reported once.
  template <typename Read>
  void ReadForAll(const JsonPlace& place, Read read) {
    read(place, 0);
    JsonErrors same;
    for (size_t i = 1; i < outputs_.size(); ++i) {
      read(JsonPlace{place.path, same, place.value}, i);
    }
  }

  // Records values by the names of the outputs, calling `record(place, output)` for each output
  // that `is_recorded` accepts. If the model has one output whose name the file does not give,
  // records the value alone.
  template <typename IsRecorded, typename Record>
  void RecordEach(const JsonPlace& place, IsRecorded is_recorded, Record record) {
    if (is_one() && outputs_.front().name.empty()) return record(place, outputs_.front());
    *place.record = ordered_json::object();
    for (OutputSpec& output : outputs_) {
      if (!is_one() && !is_recorded(output)) continue;
      record(JsonPlace{place.path, place.errors, nullptr, &(*place.record)[output.name]}, output);
    }
  }

 private:
  // Returns the end of the message about a list that does not have one entry per output.
  std::string Outputs() const {
    if (is_one()) return "1 output; give one entry";
    return absl::StrCat(outputs_.size(), " outputs (", absl::StrJoin(model_.outputs, ", "),
                        "); give one entry for each");
  }

  template <typename Read>
  void ReadByName(const JsonPlace& place, Read read) {
    if (!knows_outputs()) return;
    for (const auto& [key, value] : place.value->items()) {
      const auto found = std::find(model_.outputs.begin(), model_.outputs.end(), key);
      if (found == model_.outputs.end()) {
        place.errors.Add(place.path,
                         absl::StrCat("names the output '", Excerpt(key), "', but the model has ",
                                      model_.outputs.size() == 1 ? "the output '" : "the outputs '",
                                      absl::StrJoin(model_.outputs, "', '"), "'"));
        continue;
      }
      const auto number = static_cast<size_t>(found - model_.outputs.begin());
      outputs_[number].name = key;
      read(JsonPlace{JoinKeys(place.path, Excerpt(key)), place.errors, &value}, number);
    }
  }

  const CompiledModel& model_;
  std::vector<OutputSpec>& outputs_;
};

void ReadLosses(const JsonPlace& place, int keras, OutputReader& reader,
                std::vector<OutputSpec>& outputs) {
  if (place.record != nullptr) {
    return reader.RecordEach(
        place, [](const OutputSpec& output) { return output.has_loss; },
        [&](const JsonPlace& one, OutputSpec& output) { ReadLoss(one, keras, output.loss); });
  }
  const size_t errors_before = place.errors.size();
  // An output has no loss if a list or an object gives null for it, or the object does not name it.
  for (OutputSpec& output : outputs) output.has_loss = false;
  reader.ReadEach(place, [&](const JsonPlace& one, size_t number) {
    if (one.value->is_null()) return;
    outputs[number].has_loss = true;
    ReadLoss(one, keras, outputs[number].loss);
  });
  const bool has_any = std::any_of(outputs.begin(), outputs.end(),
                                   [](const OutputSpec& output) { return output.has_loss; });
  if (has_any || !reader.knows_outputs() || place.errors.size() > errors_before) return;
  place.errors.Add(place.path, "gives no output a loss, so there is nothing to minimize");
}

void ReadLossWeights(ObjectReader& section, OutputReader& reader,
                     std::vector<OutputSpec>& outputs) {
  constexpr char kKey[] = "loss_weights";
  const bool has_any = std::any_of(outputs.begin(), outputs.end(),
                                   [](const OutputSpec& one) { return one.loss_weight != 1; });
  const std::optional<JsonPlace> place =
      section.Given(kKey, has_any) ? section.Place(kKey) : std::nullopt;
  if (!place) return;
  if (place->record != nullptr) {
    return reader.RecordEach(
        *place, [](const OutputSpec& output) { return output.loss_weight != 1; },
        [](const JsonPlace& one, OutputSpec& output) { *one.record = output.loss_weight; });
  }
  reader.ReadEach(*place, [&](const JsonPlace& one, size_t number) {
    if (one.value->is_null()) return;
    const bool fits = one.value->is_number() && one.value->get<double>() >= kWeight.min;
    if (fits) {
      outputs[number].loss_weight = one.value->get<double>();
    } else {
      one.errors.Add(one.path, absl::StrCat("is ", JsonExcerpt(*one.value),
                                            "; it must be a number of at least 0"));
    }
  });
}

// One of the two keys for metrics: `metrics` or `weighted_metrics`.
struct MetricKey {
  const char* key;
  int keras;
  bool weighted;

  bool Has(const OutputSpec& output) const {
    return std::any_of(output.metrics.begin(), output.metrics.end(),
                       [this](const MetricSpec& one) { return one.weighted == weighted; });
  }
};

// Reads the metrics of one key. `taken` has, for each output, the names that its metrics may not
// have.
void ReadMetricLists(ObjectReader& section, const MetricKey& key, OutputReader& reader,
                     std::vector<std::set<std::string>>& taken, std::vector<OutputSpec>& outputs) {
  const bool has_any =
      !key.weighted || std::any_of(outputs.begin(), outputs.end(),
                                   [&](const OutputSpec& output) { return key.Has(output); });
  if (!section.Given(key.key, has_any)) return;
  const JsonPlace place = *section.Place(key.key);
  if (place.record != nullptr) {
    return reader.RecordEach(
        place, [&](const OutputSpec& output) { return key.Has(output); },
        [&](const JsonPlace& one, OutputSpec& output) {
          RecordMetrics(one, key.weighted, output.metrics);
        });
  }
  const auto read = [&](const JsonPlace& one, size_t number) {
    ReadMetrics(one, {key.keras, key.weighted, taken[number]}, outputs[number].metrics);
  };
  const json& value = *place.value;
  const bool has_lists = value.is_array() && std::any_of(value.begin(), value.end(),
                                                         [](auto& one) { return one.is_array(); });
  // A plain list has the metrics of the model's only output or, in a file of Keras 2, the same
  // metrics for every output.
  const bool is_plain = !IsByOutput(value) && !has_lists;
  if (is_plain && (reader.is_one() || key.keras == 2)) return reader.ReadForAll(place, read);
  // Reports that the value is neither.
  if (!IsByOutput(value) && !value.is_array()) return read(place, 0);
  reader.ReadEach(place, [&](const JsonPlace& one, size_t number) {
    if (one.value->is_null()) return;
    // For one output of several, a metric may stand in place of a list with one metric.
    const json alone = json::array({*one.value});
    read(JsonPlace{one.path, one.errors, one.value->is_array() ? one.value : &alone}, number);
  });
}

// Checks that no two numbers of several outputs are reported under one name.
void CheckReportedNames(const std::vector<OutputSpec>& outputs, ObjectReader& section) {
  if (outputs.size() == 1) return;
  std::set<std::string> reported(std::begin(kReported), std::end(kReported));
  const auto add = [&](const std::string& name) {
    if (reported.insert(name).second) return;
    section.AddError("metrics", absl::StrCat("two numbers would be reported as '", Excerpt(name),
                                             "'; give a metric another config.name, or rename an "
                                             "output's layer"));
  };
  for (const OutputSpec& output : outputs) {
    if (output.has_loss) add(ReportedName(output, "loss"));
    for (const MetricSpec& metric : output.metrics) add(ReportedName(output, metric.name));
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

void ReadCompile(ObjectReader& reader, const CompiledModel& model, CompileSpec& compile) {
  const json rmsprop = "rmsprop";  // Keras's default optimizer
  const JsonPlace otherwise = {JoinKeys(reader.path(), "optimizer"), reader.errors(), &rmsprop};
  ReadOptimizer(reader.Place("optimizer").value_or(otherwise), model.keras, compile.optimizer);
  std::vector<OutputSpec>& outputs = compile.outputs;
  if (!reader.recording() && model.outputs.size() > 1) {
    outputs.resize(model.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = model.outputs[i];
  }
  OutputReader by_output(model, outputs);
  reader.Require("loss");
  if (const auto loss = reader.Place("loss")) ReadLosses(*loss, model.keras, by_output, outputs);
  const std::set<std::string> reported(std::begin(kReported), std::end(kReported));
  std::vector<std::set<std::string>> taken(outputs.size(), reported);
  ReadMetricLists(reader, {"metrics", model.keras, false}, by_output, taken, outputs);
  ReadLossWeights(reader, by_output, outputs);
  ReadMetricLists(reader, {"weighted_metrics", model.keras, true}, by_output, taken, outputs);
  CheckReportedNames(outputs, reader);
  // Keys of Keras's compile() that are accepted only if they change nothing.
  reader.OnlyNeutral("run_eagerly", false);
  reader.OnlyNeutral("auto_scale_loss", true);
  ReadStepsPerExecution(reader, compile);
  reader.Ignore("jit_compile");
}

}  // namespace cohort
