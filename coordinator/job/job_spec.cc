#include "coordinator/job/job_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/overrides.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/network/output_names.h"
#include "coordinator/network/read_model.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A heartbeat is sent every tenth of the lease, and a task that has not answered for a third of the
// lease is suspected (coordinator/cluster/task_connection.cc). With a shorter lease, healthy tasks
// would be declared lost.
constexpr absl::Duration kLeaseMin = absl::Milliseconds(100);
constexpr int64_t kCountMax = 1'000'000'000;
constexpr int64_t kBatchSizeMax = 1 << 20;
constexpr int64_t kClosuresInFlightMax = 256;
constexpr int64_t kClassWeightsMax = 1 << 16;
constexpr int64_t kQueueSizeMax = 1 << 20;
// A slice's record of applied closures holds at least this many.
constexpr int64_t kRedoMax = 65536;
constexpr int64_t kWorkersMax = 1 << 20;
constexpr int64_t kDayMs = 24 * 3600 * 1000;

// Reads {"0": 1, "1": 2.5}: weights by class.
void ReadClassWeight(const JsonPlace& place, std::map<int64_t, double>& weights) {
  if (place.record != nullptr) {
    *place.record = ordered_json::object();
    for (const auto& [id, weight] : weights) (*place.record)[absl::StrCat(id)] = weight;
    return;
  }
  if (!place.value->is_object() || place.value->size() > static_cast<size_t>(kClassWeightsMax)) {
    return place.errors.Add(
        place.path,
        absl::StrCat("is ", JsonExcerpt(*place.value), "; it must be an object with at most ",
                     kClassWeightsMax, " weights by class, such as {\"0\": 1}"));
  }
  for (const auto& [key, weight] : place.value->items()) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0 || id >= kClassWeightsMax) {
      place.errors.Add(place.path, absl::StrCat("has the class '", Excerpt(key),
                                                "'; a class is a whole number from 0 to ",
                                                kClassWeightsMax - 1));
    } else if (!weight.is_number() || weight.get<double>() < 0) {
      place.errors.Add(JoinKeys(place.path, key),
                       absl::StrCat("is ", JsonExcerpt(weight), "; it must be 0 or more"));
    } else {
      weights[id] = weight.get<double>();
    }
  }
}

void ReadFit(ObjectReader& reader, FitSpec& fit) {
  reader.Int("epochs", {.min = 1, .max = kCountMax}, &fit.epochs);
  reader.Int("batch_size", {.min = 1, .max = kBatchSizeMax}, &fit.batch_size);
  reader.OptionalInt("steps_per_epoch", {.min = 1, .max = kCountMax}, &fit.steps_per_epoch);
  reader.Number("validation_split", {.min = 0, .max = 1, .max_excluded = true},
                &fit.validation_split);
  reader.OptionalInt("validation_batch_size", {.min = 1, .max = kBatchSizeMax},
                     &fit.validation_batch_size);
  reader.Bool("shuffle", &fit.shuffle);
  if (reader.Given("class_weight", !fit.class_weight.empty())) {
    ReadClassWeight(*reader.Place("class_weight"), fit.class_weight);
  }
  reader.Int("closures_in_flight", {.min = 1, .max = kClosuresInFlightMax},
             &fit.closures_in_flight);
}

void ReadSource(ObjectReader& reader, InitFromSpec::Source& source) {
  reader.String("from", &source.from);
  reader.Ints("transpose", {.min = 0, .max = 63}, 0, &source.transpose);
}

// Reads the map from variables to values of the file. An entry is the name of a value, or an object
// with it.
void ReadMap(ObjectReader& reader, std::map<std::string, InitFromSpec::Source>& map) {
  std::vector<std::string> names = reader.Keys();
  if (reader.recording()) {
    for (const auto& [name, source] : map) names.push_back(name);
  }
  for (const std::string& name : names) {
    InitFromSpec::Source& source = map[name];
    if (reader.recording() ? !source.transpose.empty() : reader.HoldsObject(name)) {
      reader.Object(name, ReadSource, &source);
    } else {
      reader.String(name, &source.from);
    }
    if (source.from.empty()) reader.AddError(name, "names no value of the file");
  }
}

void ReadInitFrom(ObjectReader& reader, InitFromSpec& init) {
  reader.String("path", &init.path);
  if (reader.Given("map", !init.map.empty())) reader.Object("map", ReadMap, &init.map);
  reader.Bool("weights_only", &init.weights_only);
  reader.Bool("skip_mismatch", &init.skip_mismatch);
  if (init.path.empty()) reader.AddError("path", "is missing or empty; name a file of weights");
}

void ReadCheckpoint(ObjectReader& reader, CheckpointSpec& checkpoint) {
  reader.String("directory", &checkpoint.directory);
  reader.Int("max_to_keep", {.min = 1, .max = kCountMax}, &checkpoint.max_to_keep);
  reader.Int("every_epochs", {.min = 1, .max = kCountMax}, &checkpoint.every_epochs);
  reader.String("restore", &checkpoint.restore);
  reader.Bool("weights_only", &checkpoint.weights_only);
  if (reader.Given("init_from", !checkpoint.init_from.path.empty())) {
    // A string in place of the object is its `path`.
    if (reader.recording() || reader.HoldsObject("init_from")) {
      reader.Object("init_from", ReadInitFrom, &checkpoint.init_from);
    } else {
      reader.String("init_from", &checkpoint.init_from.path);
    }
  }
  const std::vector<std::string> modes = {"auto", "shared", "stream"};
  reader.Choice("mode", modes, &checkpoint.mode);
  // restore "latest" looks for the newest checkpoint in checkpoint.directory.
  if (checkpoint.restore == "latest" && checkpoint.directory.empty()) {
    reader.AddError("restore", "is 'latest', which needs checkpoint.directory");
  }
  if (checkpoint.weights_only && checkpoint.restore.empty()) {
    reader.AddError("weights_only", "is true, which needs checkpoint.restore: name a checkpoint");
  }
}

// Reads a duration in whole milliseconds; an absent key leaves `out` unchanged.
void ReadMilliseconds(const std::string& key, ObjectReader& reader, absl::Duration* out) {
  int64_t ms = absl::ToInt64Milliseconds(*out);
  reader.Int(key, {.min = 1, .max = kDayMs}, &ms);
  *out = absl::Milliseconds(ms);
}

void ReadRecovery(ObjectReader& reader, RecoverySpec& recovery) {
  reader.Bool("enabled", &recovery.enabled);
  reader.String("directory", &recovery.directory);
  ReadMilliseconds("interval_ms", reader, &recovery.interval);
  reader.Int("interval_steps", {.min = 0, .max = kRedoMax}, &recovery.interval_steps);
  reader.Int("max_steps", {.min = 1, .max = kRedoMax}, &recovery.max_steps);
}

void ReadCluster(ObjectReader& reader, ClusterOptionsSpec& cluster) {
  ReadMilliseconds("connect_timeout_ms", reader, &cluster.connect_timeout);
  ReadMilliseconds("lease_timeout_ms", reader, &cluster.lease_timeout);
  if (cluster.lease_timeout < kLeaseMin) {
    reader.AddError("lease_timeout_ms",
                    absl::StrCat("is ", absl::ToInt64Milliseconds(cluster.lease_timeout),
                                 ", and a task has a quarter of it to answer a heartbeat, which "
                                 "takes up to 25 ms where machines are busy; give at least ",
                                 absl::ToInt64Milliseconds(kLeaseMin)));
  }
  ReadMilliseconds("call_timeout_ms", reader, &cluster.call_timeout);
  reader.Int("max_attempts", {.min = 1, .max = kCountMax}, &cluster.max_attempts);
  reader.Int("quarantine_after", {.min = 1, .max = kCountMax}, &cluster.quarantine_after);
  reader.Bool("skip_quarantined", &cluster.skip_quarantined);
  reader.Int("queue_size", {.min = 1, .max = kQueueSizeMax}, &cluster.queue_size);
  reader.Int("min_workers", {.min = 1, .max = kWorkersMax}, &cluster.min_workers);
  reader.OptionalInt("max_workers", {.min = 1, .max = kWorkersMax}, &cluster.max_workers);
  // Without max_workers, min_workers has no upper bound to respect.
  if (cluster.max_workers.value_or(kWorkersMax) < cluster.min_workers) {
    reader.AddError("max_workers", absl::StrCat("is ", *cluster.max_workers,
                                                ", less than cluster.min_workers, which is ",
                                                cluster.min_workers));
  }
}

// Checks the limits against the size of a round. A round that waits for its last steps may take at
// most half of each limit.
void CheckRounds(const JobSpec& job, JsonErrors& errors) {
  const SynchronousSpec* const synchronous = job.strategy.synchronous();
  if (synchronous == nullptr) return;
  const auto at_least = [&](const std::string& key, int64_t value) {
    if (value >= 2 * synchronous->aggregate) return;
    errors.Add(key, absl::StrCat("is ", value, ", less than twice strategy.consistency's ",
                                 "aggregate, which is ", synchronous->aggregate));
  };
  at_least("cluster.queue_size", job.cluster.queue_size);
  at_least("recovery.max_steps", job.recovery.max_steps);
  // A round that lacks a skipped step would never be complete.
  if (job.cluster.skip_quarantined) {
    errors.Add("cluster.skip_quarantined",
               "is true, but synchronous training needs every step of a round");
  }
  if (job.compile.steps_per_execution > 1) {
    errors.Add("compile.steps_per_execution",
               absl::StrCat("is ", job.compile.steps_per_execution,
                            ", but with strategy.consistency 'synchronous' a step waits for the "
                            "other workers' of the step before; write 1"));
  }
}

// Checks a key of `data` that gives components by the model's outputs, whose names are `outputs`.
void CheckComponents(const std::string& key, const OutputComponents& components,
                     const std::vector<std::string>& outputs, JsonErrors& errors) {
  if (!components.in_order.empty() && components.in_order.size() != outputs.size()) {
    errors.Add(key, absl::StrCat("has ", components.in_order.size(), " entries, but the model has ",
                                 outputs.size(), " outputs; give one entry for each"));
  }
  for (const auto& [name, component] : components.by_name) {
    if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) continue;
    errors.Add(key, absl::StrCat("names the output '", Excerpt(name), "', but the model has '",
                                 absl::StrJoin(outputs, "', '"), "'"));
  }
}

// Checks the outputs that sections other than `compile` name.
void CheckOutputs(const JobSpec& job, JsonErrors& errors) {
  const std::vector<std::string> outputs = OutputNames(job.model);
  // Without outputs the model could not be read, and errors were reported.
  if (outputs.empty()) return;
  CheckComponents("data.labels", job.data.labels, outputs, errors);
  CheckComponents("data.sample_weight", job.data.sample_weight, outputs, errors);
  if (outputs.size() > 1 && !job.fit.class_weight.empty()) {
    errors.Add("fit.class_weight",
               absl::StrCat("is given for a model with ", outputs.size(),
                            " outputs; as in Keras, classes have weights only where there is one "
                            "output: give each output's examples weights in data.sample_weight"));
  }
  if (job.data.labels.empty()) return;
  for (size_t i = 0; i < job.compile.outputs.size() && i < outputs.size(); ++i) {
    const bool reads = job.compile.outputs[i].reads_labels();
    if (!reads || job.data.labels.Of(i, outputs[i]).has_value()) continue;
    errors.Add("data.labels", absl::StrCat("gives the output '", outputs[i],
                                           "' no labels, but compile gives it a loss or metrics; "
                                           "name the component that has its labels"));
  }
}

// Checks the section `export`. Exported files hold whole tensors, so a model with dynamic tables
// cannot be exported.
void CheckExport(const JobSpec& job, JsonErrors& errors) {
  for (const auto& [key, path] : job.export_to.Files()) {
    for (const LayerSpec& layer : job.model.layers) {
      if (layer.layer->dynamic_table() == nullptr) continue;
      errors.Add(key, absl::StrCat("is '", path, "', but layer '", layer.name,
                                   "' has a dynamic table, which is not a tensor that such a file "
                                   "could hold; leave it out, checkpoints have the table"));
    }
  }
}

// Reads the path of an exported file. Its name must end with `ending`, because other programs
// expect that.
void ReadExportPath(const char* key, const std::string& ending, ObjectReader& reader,
                    std::string* path) {
  // A key that is absent is not recorded, so that the fingerprint of older job files stays the
  // same.
  if (!reader.Given(key, !path->empty())) return;
  reader.String(key, path);
  if (path->empty() || absl::EndsWith(*path, ending)) return;
  reader.AddError(key, absl::StrCat("is '", Excerpt(*path), "'; it must end in '", ending,
                                    "', by which other programs know such a file"));
}

void ReadExport(ObjectReader& reader, ExportSpec& export_to) {
  reader.String("onnx", &export_to.onnx);
  ReadExportPath("keras", ".keras", reader, &export_to.keras);
  ReadExportPath("weights_h5", ".weights.h5", reader, &export_to.weights_h5);
  ReadExportPath("safetensors", ".safetensors", reader, &export_to.safetensors);
  ReadExportPath("tf_checkpoint", "", reader, &export_to.tf_checkpoint);
}

// Reads the section `model`, in which ResolveModel has put the class form.
void ReadModelSection(ObjectReader& reader, const ResolvedModel& resolved, JobSpec& job) {
  if (resolved.is_known) reader.Require("model");
  std::optional<JsonPlace> model = reader.Place("model");
  if (!model) return;
  model->path = resolved.path;
  if (!reader.recording()) job.model.file_form = resolved.form;
  ReadModel(*model, job.model);
  // The training begins with the weights in the model's file, unless checkpoint.init_from names
  // others.
  if (resolved.form.has_weights) job.checkpoint.init_from.path = resolved.form.file;
}

void ReadCompileSection(ObjectReader& reader, const ResolvedModel& resolved, JobSpec& job) {
  std::optional<JsonPlace> compile = reader.Place("compile");
  if (compile) {
    compile->path = resolved.compile_path;
    ObjectReader section(*compile);
    ReadCompile(section, {job.model.file_form.keras, OutputNames(job.model)}, job.compile);
    section.Finish();
  } else if (!resolved.is_known || !resolved.is_compile_known) {
    return;  // the error was reported when the section was read
  } else if (!resolved.form.file.empty()) {
    reader.AddError("compile", absl::StrCat("is missing; it must be given, because '",
                                            Excerpt(resolved.form.file),
                                            "' does not say what compile() was given"));
  } else {
    reader.Require("compile");
  }
}

void ReadJob(const JsonPlace& place, const ResolvedModel& resolved, JobSpec& job) {
  ObjectReader reader(place);
  reader.String("name", &job.name);
  reader.Seed("seed", &job.seed);
  ReadModelSection(reader, resolved, job);
  ReadCompileSection(reader, resolved, job);
  reader.Require("data");
  reader.Object("data", ReadData, &job.data);
  reader.Object("fit", ReadFit, &job.fit);
  reader.Object("strategy", ReadStrategy, &job.strategy);
  reader.Object("checkpoint", ReadCheckpoint, &job.checkpoint);
  reader.Object("recovery", ReadRecovery, &job.recovery);
  reader.Object("export", ReadExport, &job.export_to);
  reader.Object("cluster", ReadCluster, &job.cluster);
  // Checks across sections come last, when every section has its values.
  CheckRounds(job, place.errors);
  CheckOutputs(job, place.errors);
  CheckExport(job, place.errors);
  reader.Finish();
}

}  // namespace

std::vector<ExportSpec::File> ExportSpec::Files() const {
  std::vector<File> files = {{"export.onnx", onnx},
                             {"export.keras", keras},
                             {"export.weights_h5", weights_h5},
                             {"export.safetensors", safetensors}};
  if (!tf_checkpoint.empty()) {
    // Endings of a checkpoint's files in TensorFlow.
    for (const char* const ending : {".index", ".data-00000-of-00001"}) {
      files.push_back({"export.tf_checkpoint", absl::StrCat(tf_checkpoint, ending)});
    }
  }
  files.erase(std::remove_if(files.begin(), files.end(),
                             [](const File& file) { return file.path.empty(); }),
              files.end());
  return files;
}

absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides) {
  return ParseJob(text, file_name, overrides, ModelFileReader());
}

absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides,
                                 const ModelFileReader& files) {
  if (text.size() > kJobFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": the job file has ", text.size(),
                                                   " bytes; at most ", kJobFileBytesMax,
                                                   " are read"));
  }
  // The text is limited before it is parsed, and the parser limits its depth.
  absl::StatusOr<json> parsed = ParseJsonText(text);
  if (!parsed.ok()) return Annotate(parsed.status(), file_name);
  // Overrides change the parsed text, so overridden values are checked like the rest of the file.
  RETURN_IF_ERROR(ApplyOverrides(overrides, *parsed));
  JsonErrors errors;
  JobSpec job;
  const ResolvedModel resolved = ResolveModel(files, errors, *parsed);
  ReadJob({"", errors, &*parsed}, resolved, job);
  RETURN_IF_ERROR(errors.ToStatus(file_name));
  return job;
}

std::string JobToJson(const JobSpec& job) {
  ordered_json whole;
  JsonErrors errors;
  // JobToJson records a copy, because the functions that record take the job by reference;
  // recording does not change it.
  JobSpec same = job;
  ReadJob({"", errors, nullptr, &whole}, ResolvedModel(), same);
  // Strings that are not UTF-8 are replaced, so that the dump cannot fail.
  return whole.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace cohort
