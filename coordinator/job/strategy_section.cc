#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr IntRange kAtLeastOne = {.min = 1};
constexpr int64_t kRoundMax = 4096;
constexpr int64_t kPacksMax = 4096;
constexpr int64_t kPackBytesMax = int64_t{1} << 40;
constexpr double kTimeoutSecondsMax = 1e6;
constexpr IntRange kStepsAhead = {.min = 0, .max = 1'000'000'000};
constexpr char kAsynchronous[] = "Asynchronous";
constexpr char kBoundedStaleness[] = "BoundedStaleness";
constexpr char kSynchronous[] = "Synchronous";
constexpr char kFixed[] = "FixedShardsPartitioner";
constexpr char kMinSize[] = "MinSizePartitioner";
constexpr char kMaxSize[] = "MaxSizePartitioner";

std::optional<PartitionerSpec> ReadPartitioner(const json& value, const std::string& path,
                                               JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return std::nullopt;
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  std::optional<PartitionerSpec> result;
  if (form.class_name == kFixed) {
    // TensorFlow has no default for num_shards and max_shard_bytes, so they are required.
    FixedShardsPartitionerSpec spec;
    config.Require("num_shards");
    config.Int("num_shards", kAtLeastOne, &spec.num_shards);
    result = spec;
  } else if (form.class_name == kMinSize) {
    MinSizePartitionerSpec spec;
    config.Int("min_shard_bytes", kAtLeastOne, &spec.min_shard_bytes);
    config.Int("max_shards", kAtLeastOne, &spec.max_shards);
    config.Int("bytes_per_string", kAtLeastOne, &spec.bytes_per_string);
    config.Bool("strict_minimum", &spec.strict_minimum);
    result = spec;
  } else if (form.class_name == kMaxSize) {
    MaxSizePartitionerSpec spec;
    config.Require("max_shard_bytes");
    config.Int("max_shard_bytes", kAtLeastOne, &spec.max_shard_bytes);
    config.OptionalInt("max_shards", kAtLeastOne, &spec.max_shards);
    config.Int("bytes_per_string", kAtLeastOne, &spec.bytes_per_string);
    result = spec;
  } else {
    errors.Add(path, UnknownName("partitioner", form.class_name, {kFixed, kMinSize, kMaxSize}));
    return std::nullopt;
  }
  config.Finish();
  return result;
}

ConsistencySpec ReadConsistency(const json& value, const std::string& path, JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return {};
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  ConsistencySpec result;
  if (form.class_name == kBoundedStaleness) {
    BoundedStalenessSpec spec;
    config.Require("steps");
    config.Int("steps", kStepsAhead, &spec.steps);
    result = spec;
  } else if (form.class_name == kSynchronous) {
    SynchronousSpec spec;
    config.Require("aggregate");
    config.Int("aggregate", {.min = 1, .max = kRoundMax}, &spec.aggregate);
    config.Int("backup_steps", {.min = 0, .max = kRoundMax}, &spec.backup_steps);
    result = spec;
  } else if (form.class_name != kAsynchronous) {
    errors.Add(path, UnknownName("consistency", form.class_name,
                                 {kAsynchronous, kBoundedStaleness, kSynchronous}));
    return {};
  }
  config.Finish();
  return result;
}

// Reads a list of device names; the strategy checks the names.
void ReadDevices(const std::string& key, ObjectReader& reader, std::vector<std::string>* out) {
  const json* const value = reader.Find(key);
  if (value == nullptr) return;
  const bool all =
      value->is_array() &&
      std::all_of(value->begin(), value->end(), [](const json& one) { return one.is_string(); });
  if (!all) {
    return reader.AddError(
        key, absl::StrCat("is ", value->dump(-1, ' ', false, json::error_handler_t::replace),
                          "; it must be a list of devices such as [\"cpu:0\", "
                          "\"cpu:1\"]"));
  }
  *out = value->get<std::vector<std::string>>();
}

CompressionSpec ReadCompression(const json& value, const std::string& path, JsonErrors& errors) {
  CompressionSpec spec;
  ObjectReader reader(value, path, errors);
  reader.Choice("pull_dtype", {"float32", "float16", "bfloat16"}, &spec.pull_dtype);
  reader.Choice("push_dtype", {"float32", "float16", "bfloat16"}, &spec.push_dtype);
  reader.Number("top_k", {.min = 0, .max = 1, .min_excluded = true}, &spec.top_k);
  reader.Finish();
  return spec;
}

CommunicationSpec ReadCommunication(const json& value, const std::string& path,
                                    JsonErrors& errors) {
  CommunicationSpec spec;
  ObjectReader reader(value, path, errors);
  reader.Choice("implementation", {"auto", "ring", "nccl"}, &spec.implementation);
  reader.Int("bytes_per_pack", {.min = 0, .max = kPackBytesMax}, &spec.bytes_per_pack);
  reader.Number("timeout_seconds", {.min = 0, .max = kTimeoutSecondsMax}, &spec.timeout_seconds);
  reader.Choice("gradient_dtype", {"float32", "float16", "bfloat16"}, &spec.gradient_dtype);
  reader.Finish();
  return spec;
}

ordered_json ToJson(const AsynchronousSpec&) {
  return ClassFormToJson(kAsynchronous, ordered_json::object());
}

ordered_json ToJson(const BoundedStalenessSpec& spec) {
  return ClassFormToJson(kBoundedStaleness, {{"steps", spec.steps}});
}

ordered_json ToJson(const SynchronousSpec& spec) {
  return ClassFormToJson(kSynchronous,
                         {{"aggregate", spec.aggregate}, {"backup_steps", spec.backup_steps}});
}

ordered_json ToJson(const FixedShardsPartitionerSpec& spec) {
  return ClassFormToJson(kFixed, {{"num_shards", spec.num_shards}});
}

ordered_json ToJson(const MinSizePartitionerSpec& spec) {
  return ClassFormToJson(kMinSize, {{"min_shard_bytes", spec.min_shard_bytes},
                                    {"max_shards", spec.max_shards},
                                    {"bytes_per_string", spec.bytes_per_string},
                                    {"strict_minimum", spec.strict_minimum}});
}

ordered_json ToJson(const MaxSizePartitionerSpec& spec) {
  ordered_json config = {{"max_shard_bytes", spec.max_shard_bytes}};
  if (spec.max_shards) config["max_shards"] = *spec.max_shards;
  config["bytes_per_string"] = spec.bytes_per_string;
  return ClassFormToJson(kMaxSize, std::move(config));
}

}  // namespace

StrategySpec ReadStrategy(const json& value, const std::string& path, JsonErrors& errors) {
  StrategySpec strategy;
  ObjectReader reader(value, path, errors);
  // The options of every type are read, whichever type the job has.
  reader.Choice("type", StrategyTypes(), &strategy.type);
  if (const json* partitioner = reader.Find("partitioner")) {
    strategy.partitioner = ReadPartitioner(*partitioner, JoinPath(path, "partitioner"), errors);
  }
  reader.Choice("placement", {"round_robin", "bytes", "measured"}, &strategy.placement);
  if (const json* consistency = reader.Find("consistency")) {
    strategy.consistency = ReadConsistency(*consistency, JoinPath(path, "consistency"), errors);
  }
  if (const json* compression = reader.Find("compression")) {
    strategy.compression = ReadCompression(*compression, JoinPath(path, "compression"), errors);
  }
  reader.String("device", &strategy.device);
  ReadDevices("devices", reader, &strategy.devices);
  reader.Choice("cross_device_ops",
                {"auto", "nccl", "hierarchical_copy", "reduction_to_one_device"},
                &strategy.cross_device_ops);
  reader.Int("num_packs", {.min = 0, .max = kPacksMax}, &strategy.num_packs);
  ReadDevices("compute_devices", reader, &strategy.compute_devices);
  reader.String("parameter_device", &strategy.parameter_device);
  if (const json* communication = reader.Find("communication_options")) {
    strategy.communication =
        ReadCommunication(*communication, JoinPath(path, "communication_options"), errors);
  }
  reader.Finish();
  return strategy;
}

const std::vector<std::string>& StrategyTypes() {
  static const auto* const types =
      new std::vector<std::string>{kParameterServer,  kMultiWorkerMirrored, "mirrored",
                                   "central_storage", "one_device",         "default"};
  return *types;
}

ordered_json StrategyToJson(const StrategySpec& strategy) {
  ordered_json section = {{"type", strategy.type}};
  // The key is written even without a partitioner, so that a reader of the job sees the option.
  section["partitioner"] = nullptr;
  if (strategy.partitioner) {
    section["partitioner"] =
        std::visit([](const auto& one) { return ToJson(one); }, *strategy.partitioner);
  }
  section["placement"] = strategy.placement;
  section["consistency"] =
      std::visit([](const auto& one) { return ToJson(one); }, strategy.consistency);
  section["compression"] = {{"pull_dtype", strategy.compression.pull_dtype},
                            {"push_dtype", strategy.compression.push_dtype},
                            {"top_k", strategy.compression.top_k}};
  section["device"] = strategy.device;
  section["devices"] = strategy.devices;
  section["cross_device_ops"] = strategy.cross_device_ops;
  section["num_packs"] = strategy.num_packs;
  section["compute_devices"] = strategy.compute_devices;
  section["parameter_device"] = strategy.parameter_device;
  section["communication_options"] = {{"implementation", strategy.communication.implementation},
                                      {"bytes_per_pack", strategy.communication.bytes_per_pack},
                                      {"timeout_seconds", strategy.communication.timeout_seconds},
                                      {"gradient_dtype", strategy.communication.gradient_dtype}};
  return section;
}

}  // namespace cohort
