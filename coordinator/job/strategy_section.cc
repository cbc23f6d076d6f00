#include <optional>
#include <variant>
#include <vector>

#include "coordinator/job/job_sections.h"

namespace cohort {
namespace {

constexpr IntRange kAtLeastOne = {.min = 1};
constexpr int64_t kRoundMax = 4096;
constexpr int64_t kPacksMax = 4096;
constexpr int64_t kPackBytesMax = int64_t{1} << 40;
constexpr double kTimeoutSecondsMax = 1e6;
constexpr IntRange kStepsAhead = {.min = 0, .max = 1'000'000'000};

void ReadConfig(ObjectReader& config, FixedShardsPartitionerSpec& spec) {
  // TensorFlow has no default for num_shards and max_shard_bytes, so they are required.
  config.Require("num_shards");
  config.Int("num_shards", kAtLeastOne, &spec.num_shards);
}

void ReadConfig(ObjectReader& config, MinSizePartitionerSpec& spec) {
  config.Int("min_shard_bytes", kAtLeastOne, &spec.min_shard_bytes);
  config.Int("max_shards", kAtLeastOne, &spec.max_shards);
  config.Int("bytes_per_string", kAtLeastOne, &spec.bytes_per_string);
  config.Bool("strict_minimum", &spec.strict_minimum);
}

void ReadConfig(ObjectReader& config, MaxSizePartitionerSpec& spec) {
  config.Require("max_shard_bytes");
  config.Int("max_shard_bytes", kAtLeastOne, &spec.max_shard_bytes);
  config.OptionalInt("max_shards", kAtLeastOne, &spec.max_shards);
  config.Int("bytes_per_string", kAtLeastOne, &spec.bytes_per_string);
}

void ReadConfig(ObjectReader&, AsynchronousSpec&) {}

void ReadConfig(ObjectReader& config, BoundedStalenessSpec& spec) {
  config.Require("steps");
  config.Int("steps", kStepsAhead, &spec.steps);
}

void ReadConfig(ObjectReader& config, SynchronousSpec& spec) {
  config.Require("aggregate");
  config.Int("aggregate", {.min = 1, .max = kRoundMax}, &spec.aggregate);
  config.Int("backup_steps", {.min = 0, .max = kRoundMax}, &spec.backup_steps);
}

// Reads one of `choices`, whose order is that of the variant's alternatives.
template <typename Variant>
bool ReadVariant(const JsonPlace& place, const char* what,
                 const std::vector<ClassChoice<Variant>>& choices, Variant& spec) {
  const auto fields = [](ObjectReader& config, Variant& choice) {
    std::visit([&](auto& one) { ReadConfig(config, one); }, choice);
  };
  return ReadClass(place, what, choices, choices[spec.index()].name, fields, spec);
}

void ReadPartitioner(ObjectReader& reader, std::optional<PartitionerSpec>& partitioner) {
  const std::optional<JsonPlace> place = reader.Place("partitioner");
  // Without a partitioner the key is recorded as null, so that readers of the record see the
  // option.
  if (!place || !reader.Given("partitioner", partitioner.has_value())) return;
  PartitionerSpec spec = partitioner.value_or(PartitionerSpec());
  const bool known = ReadVariant(*place, "partitioner",
                                 {{"FixedShardsPartitioner", FixedShardsPartitionerSpec()},
                                  {"MinSizePartitioner", MinSizePartitionerSpec()},
                                  {"MaxSizePartitioner", MaxSizePartitionerSpec()}},
                                 spec);
  if (known) partitioner = spec;
}

void ReadCompression(ObjectReader& reader, CompressionSpec& spec) {
  reader.Choice("pull_dtype", {"float32", "float16", "bfloat16"}, &spec.pull_dtype);
  reader.Choice("push_dtype", {"float32", "float16", "bfloat16"}, &spec.push_dtype);
  reader.Number("top_k", {.min = 0, .max = 1, .min_excluded = true}, &spec.top_k);
}

void ReadCommunication(ObjectReader& reader, CommunicationSpec& spec) {
  reader.Choice("implementation", {"auto", "ring", "nccl"}, &spec.implementation);
  reader.Int("bytes_per_pack", {.min = 0, .max = kPackBytesMax}, &spec.bytes_per_pack);
  reader.Number("timeout_seconds", {.min = 0, .max = kTimeoutSecondsMax}, &spec.timeout_seconds);
  reader.Choice("gradient_dtype", {"float32", "float16", "bfloat16"}, &spec.gradient_dtype);
}

}  // namespace

void ReadStrategy(ObjectReader& reader, StrategySpec& strategy) {
  constexpr char kDevices[] = "devices such as [\"cpu:0\", \"cpu:1\"]";
  // The options of every type are read, whichever type the job has.
  reader.Choice("type", StrategyTypes(), &strategy.type);
  ReadPartitioner(reader, strategy.partitioner);
  reader.Choice("placement", {"round_robin", "bytes", "measured"}, &strategy.placement);
  if (const auto consistency = reader.Place("consistency")) {
    ReadVariant(*consistency, "consistency",
                {{"Asynchronous", AsynchronousSpec()},
                 {"BoundedStaleness", BoundedStalenessSpec()},
                 {"Synchronous", SynchronousSpec()}},
                strategy.consistency);
  }
  reader.Object("compression", ReadCompression, &strategy.compression);
  reader.String("device", &strategy.device);
  // The strategy checks the names of devices.
  reader.Strings("devices", 0, kDevices, &strategy.devices);
  reader.Choice("cross_device_ops",
                {"auto", "nccl", "hierarchical_copy", "reduction_to_one_device"},
                &strategy.cross_device_ops);
  reader.Int("num_packs", {.min = 0, .max = kPacksMax}, &strategy.num_packs);
  reader.Strings("compute_devices", 0, kDevices, &strategy.compute_devices);
  reader.String("parameter_device", &strategy.parameter_device);
  reader.Object("communication_options", ReadCommunication, &strategy.communication);
}

const std::vector<std::string>& StrategyTypes() {
  static const auto* const types =
      new std::vector<std::string>{kParameterServer,  kMultiWorkerMirrored, "mirrored",
                                   "central_storage", "one_device",         "default"};
  return *types;
}

}  // namespace cohort
