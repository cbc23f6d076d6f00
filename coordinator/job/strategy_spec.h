#pragma once

// The `strategy` section of a job: the strategy, how it cuts variables, and how consistent the
// variables are.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cohort {

// TensorFlow's partitioners, with the names of their arguments. coordinator/strategy/partitioner.h
// has the formulas.
struct FixedShardsPartitionerSpec {
  int64_t num_shards = 1;

  friend bool operator==(const FixedShardsPartitionerSpec&,
                         const FixedShardsPartitionerSpec&) = default;
};

struct MinSizePartitionerSpec {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
  int64_t bytes_per_string = 16;
  // TensorFlow rounds up, so a shard may be smaller than the minimum. If true, no shard is smaller.
  bool strict_minimum = false;

  friend bool operator==(const MinSizePartitionerSpec&, const MinSizePartitionerSpec&) = default;
};

struct MaxSizePartitionerSpec {
  int64_t max_shard_bytes = 256 << 10;
  std::optional<int64_t> max_shards;
  int64_t bytes_per_string = 16;

  friend bool operator==(const MaxSizePartitionerSpec&, const MaxSizePartitionerSpec&) = default;
};

using PartitionerSpec =
    std::variant<FixedShardsPartitionerSpec, MinSizePartitionerSpec, MaxSizePartitionerSpec>;

// Modes of consistency: how stale the values that a step reads may be (docs/JOB_FILE.md,
// strategy.consistency).
struct AsynchronousSpec {
  friend bool operator==(const AsynchronousSpec&, const AsynchronousSpec&) = default;
};

struct BoundedStalenessSpec {
  // Upper bound on the steps between a step and the oldest step that is not done.
  int64_t steps = 0;

  friend bool operator==(const BoundedStalenessSpec&, const BoundedStalenessSpec&) = default;
};

struct SynchronousSpec {
  int64_t aggregate = 1;  // the number of steps whose mean makes one update
  // Extra steps of a round, so that the slowest steps need not be waited for.
  int64_t backup_steps = 0;

  friend bool operator==(const SynchronousSpec&, const SynchronousSpec&) = default;
};

using ConsistencySpec = std::variant<AsynchronousSpec, BoundedStalenessSpec, SynchronousSpec>;

// The types in which float32 values travel between workers and parameter servers (docs/JOB_FILE.md,
// strategy.compression).
struct CompressionSpec {
  std::string pull_dtype = "float32";  // type of pulled values: "float32", "float16", "bfloat16"
  std::string push_dtype = "float32";  // type in which pushed gradients travel
  double top_k = 1;  // the fraction of a gradient's elements that travels: the largest ones

  friend bool operator==(const CompressionSpec&, const CompressionSpec&) = default;
};

inline constexpr char kParameterServer[] = "parameter_server";
inline constexpr char kMultiWorkerMirrored[] = "multi_worker_mirrored";

// The way in which the workers of multi_worker_mirrored add up their gradients (docs/JOB_FILE.md,
// strategy.communication_options).
struct CommunicationSpec {
  std::string implementation = "auto";  // the way of summing gradients: "auto", "ring" or "nccl"
  int64_t bytes_per_pack = 0;  // bytes of gradients in one exchange; 0: chosen automatically
  double timeout_seconds = 0;  // time limit of one exchange; 0: no limit
  // The type in which gradients travel; or "float16", "bfloat16".
  std::string gradient_dtype = "float32";

  friend bool operator==(const CommunicationSpec&, const CommunicationSpec&) = default;
};

// Returns the known values of StrategySpec::type.
const std::vector<std::string>& StrategyTypes();

// The strategy of a job, with the options of all types. Options of another type than `type` are
// checked and kept but not used, so that a job can change its strategy by changing `type` alone.
struct StrategySpec {
  std::string type = kParameterServer;
  // The following options belong to type parameter_server.
  // If no partitioner is given, placement "round_robin" cuts no variable; for the other placements,
  // see JOB_FILE.md.
  std::optional<PartitionerSpec> partitioner;
  // The policy of placement: "round_robin", "bytes" or "measured"
  // (coordinator/strategy/placement.h).
  std::string placement = "round_robin";
  ConsistencySpec consistency;
  CompressionSpec compression;
  // The following options belong to the other types, with the names of TensorFlow's arguments
  // (coordinator/strategy/local_strategy.h, multi_worker_mirrored_strategy.h).
  std::string device = "cpu:0";  // the device of one_device
  // The devices of mirrored, and of each worker of multi_worker_mirrored; empty: all devices of the
  // worker.
  std::vector<std::string> devices;
  std::string cross_device_ops = "auto";  // the way of summing gradients of mirrored
  int64_t num_packs = 1;                  // the number of packs of gradients of mirrored
  // The devices of central_storage that compute; empty: all devices of the worker.
  std::vector<std::string> compute_devices;
  // The device of central_storage that holds the variables; empty: the GPU if exactly one GPU
  // computes, else the processor.
  std::string parameter_device;
  CommunicationSpec communication;  // options of multi_worker_mirrored

  // Returns the options of synchronous rounds, or nullptr if steps do not belong to rounds.
  const SynchronousSpec* synchronous() const {
    return type == kParameterServer ? std::get_if<SynchronousSpec>(&consistency) : nullptr;
  }

  friend bool operator==(const StrategySpec&, const StrategySpec&) = default;
};

}  // namespace cohort
