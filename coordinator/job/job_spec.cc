#include "coordinator/job/job_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/json_reader.h"
#include "coordinator/job/overrides.h"
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
constexpr int64_t kQueueSizeMax = 1 << 20;
constexpr int64_t kRedoMax = 65536;  // the slices' once-only records always hold this many closures
constexpr int64_t kWorkersMax = 1 << 20;
constexpr int64_t kDayMs = 24 * 3600 * 1000;

FitSpec ReadFit(const json& value, const std::string& path, JsonErrors& errors) {
  FitSpec fit;
  ObjectReader reader(value, path, errors);
  reader.Int("epochs", {.min = 1, .max = kCountMax}, &fit.epochs);
  reader.Int("batch_size", {.min = 1, .max = kBatchSizeMax}, &fit.batch_size);
  reader.OptionalInt("steps_per_epoch", {.min = 1, .max = kCountMax}, &fit.steps_per_epoch);
  reader.Number("validation_split", {.min = 0, .max = 1, .max_excluded = true},
                &fit.validation_split);
  reader.OptionalInt("validation_batch_size", {.min = 1, .max = kBatchSizeMax},
                     &fit.validation_batch_size);
  reader.Bool("shuffle", &fit.shuffle);
  reader.Int("closures_in_flight", {.min = 1, .max = kClosuresInFlightMax},
             &fit.closures_in_flight);
  reader.Finish();
  return fit;
}

ordered_json ToJson(const FitSpec& fit) {
  ordered_json section = {{"epochs", fit.epochs}, {"batch_size", fit.batch_size}};
  if (fit.steps_per_epoch) section["steps_per_epoch"] = *fit.steps_per_epoch;
  section["validation_split"] = fit.validation_split;
  if (fit.validation_batch_size) section["validation_batch_size"] = *fit.validation_batch_size;
  section["shuffle"] = fit.shuffle;
  section["closures_in_flight"] = fit.closures_in_flight;
  return section;
}

CheckpointSpec ReadCheckpoint(const json& value, const std::string& path, JsonErrors& errors) {
  CheckpointSpec checkpoint;
  ObjectReader reader(value, path, errors);
  reader.String("directory", &checkpoint.directory);
  reader.Int("max_to_keep", {.min = 1, .max = kCountMax}, &checkpoint.max_to_keep);
  reader.Int("every_epochs", {.min = 1, .max = kCountMax}, &checkpoint.every_epochs);
  reader.String("restore", &checkpoint.restore);
  reader.Bool("weights_only", &checkpoint.weights_only);
  const std::vector<std::string> modes = {"auto", "shared", "stream"};
  reader.Choice("mode", modes, &checkpoint.mode);
  // restore "latest" looks for the newest checkpoint in checkpoint.directory.
  if (checkpoint.restore == "latest" && checkpoint.directory.empty()) {
    reader.AddError("restore", "is 'latest', which needs checkpoint.directory");
  }
  if (checkpoint.weights_only && checkpoint.restore.empty()) {
    reader.AddError("weights_only", "is true, which needs checkpoint.restore: name a checkpoint");
  }
  reader.Finish();
  return checkpoint;
}

ordered_json ToJson(const CheckpointSpec& checkpoint) {
  return {{"directory", checkpoint.directory},       {"max_to_keep", checkpoint.max_to_keep},
          {"every_epochs", checkpoint.every_epochs}, {"restore", checkpoint.restore},
          {"weights_only", checkpoint.weights_only}, {"mode", checkpoint.mode}};
}

// Reads a duration in whole milliseconds; an absent key leaves `out` unchanged.
void ReadMilliseconds(const std::string& key, ObjectReader& reader, absl::Duration* out) {
  int64_t ms = absl::ToInt64Milliseconds(*out);
  reader.Int(key, {.min = 1, .max = kDayMs}, &ms);
  *out = absl::Milliseconds(ms);
}

RecoverySpec ReadRecovery(const json& value, const std::string& path, JsonErrors& errors) {
  RecoverySpec recovery;
  ObjectReader reader(value, path, errors);
  reader.Bool("enabled", &recovery.enabled);
  reader.String("directory", &recovery.directory);
  ReadMilliseconds("interval_ms", reader, &recovery.interval);
  reader.Int("interval_steps", {.min = 0, .max = kRedoMax}, &recovery.interval_steps);
  reader.Int("max_steps", {.min = 1, .max = kRedoMax}, &recovery.max_steps);
  reader.Finish();
  return recovery;
}

ordered_json ToJson(const RecoverySpec& recovery) {
  return {{"enabled", recovery.enabled},
          {"directory", recovery.directory},
          {"interval_ms", absl::ToInt64Milliseconds(recovery.interval)},
          {"interval_steps", recovery.interval_steps},
          {"max_steps", recovery.max_steps}};
}

ClusterOptionsSpec ReadCluster(const json& value, const std::string& path, JsonErrors& errors) {
  ClusterOptionsSpec cluster;
  ObjectReader reader(value, path, errors);
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
  reader.Finish();
  return cluster;
}

ordered_json ToJson(const ClusterOptionsSpec& cluster) {
  ordered_json section = {
      {"connect_timeout_ms", absl::ToInt64Milliseconds(cluster.connect_timeout)},
      {"lease_timeout_ms", absl::ToInt64Milliseconds(cluster.lease_timeout)},
      {"call_timeout_ms", absl::ToInt64Milliseconds(cluster.call_timeout)},
      {"max_attempts", cluster.max_attempts},
      {"quarantine_after", cluster.quarantine_after},
      {"skip_quarantined", cluster.skip_quarantined},
      {"queue_size", cluster.queue_size},
      {"min_workers", cluster.min_workers}};
  if (cluster.max_workers) section["max_workers"] = *cluster.max_workers;
  return section;
}

// Checks the limits against the size of a round: a round that waits for its last steps may take at
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

// Checks the export, which writes the trained model as one file of whole tensors.
void CheckExport(const JobSpec& job, JsonErrors& errors) {
  if (job.export_to.onnx.empty()) return;
  for (const LayerSpec& layer : job.model.layers) {
    if (DynamicTableOf(layer) == nullptr) continue;
    errors.Add(
        "export.onnx",
        absl::StrCat("is '", job.export_to.onnx, "', but layer '", LayerName(layer),
                     "' has a dynamic table, which is not a tensor that ONNX could hold; leave "
                     "it out, checkpoints have the table"));
  }
}

JobSpec ReadJob(const json& value, JsonErrors& errors) {
  JobSpec job;
  ObjectReader reader(value, "", errors);
  reader.String("name", &job.name);
  reader.Seed("seed", &job.seed);
  if (const json* model = reader.Require("model")) job.model = ReadModel(*model, "model", errors);
  if (const json* compile = reader.Require("compile")) {
    job.compile = ReadCompile(*compile, "compile", errors);
  }
  if (const json* data = reader.Require("data")) job.data = ReadData(*data, "data", errors);
  if (const json* fit = reader.Find("fit")) job.fit = ReadFit(*fit, "fit", errors);
  if (const json* strategy = reader.Find("strategy")) {
    job.strategy = ReadStrategy(*strategy, "strategy", errors);
  }
  if (const json* checkpoint = reader.Find("checkpoint")) {
    job.checkpoint = ReadCheckpoint(*checkpoint, "checkpoint", errors);
  }
  if (const json* recovery = reader.Find("recovery")) {
    job.recovery = ReadRecovery(*recovery, "recovery", errors);
  }
  if (const json* section = reader.Find("export")) {
    ObjectReader export_reader(*section, "export", errors);
    export_reader.String("onnx", &job.export_to.onnx);
    export_reader.Finish();
  }
  if (const json* cluster = reader.Find("cluster")) {
    job.cluster = ReadCluster(*cluster, "cluster", errors);
  }
  // Checks across sections come last, when every section has its values.
  CheckRounds(job, errors);
  CheckExport(job, errors);
  reader.Finish();
  return job;
}

}  // namespace

absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides) {
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
  JobSpec job = ReadJob(*parsed, errors);
  RETURN_IF_ERROR(errors.ToStatus(file_name));
  return job;
}

std::string JobToJson(const JobSpec& job) {
  const ordered_json whole = {{"name", job.name},
                              {"seed", job.seed},
                              {"model", ModelToJson(job.model)},
                              {"compile", CompileToJson(job.compile)},
                              {"data", DataToJson(job.data)},
                              {"fit", ToJson(job.fit)},
                              {"strategy", StrategyToJson(job.strategy)},
                              {"checkpoint", ToJson(job.checkpoint)},
                              {"recovery", ToJson(job.recovery)},
                              {"export", {{"onnx", job.export_to.onnx}}},
                              {"cluster", ToJson(job.cluster)}};
  // Strings that are not UTF-8 are replaced, so that the dump cannot fail.
  return whole.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace cohort
