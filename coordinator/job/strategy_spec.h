#pragma once

// The `strategy` section of a job: which strategy, how it cuts variables and how consistent they
// are.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cohort {

// TensorFlow's partitioners, with the names of their arguments (coordinator/strategy/partitioner.h
// has the formulas).
struct FixedShardsPartitionerSpec {
  int64_t num_shards = 1;

  friend bool operator==(const FixedShardsPartitionerSpec&,
                         const FixedShardsPartitionerSpec&) = default;
};

struct MinSizePartitionerSpec {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
  int64_t bytes_per_string = 16;
  // TensorFlow rounds up, so that a shard may be smaller than the minimum; true keeps every shard
  // at or above it.
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

// The staleness that a step's values may have (docs/JOB_FILE.md, strategy.consistency).
struct AsynchronousSpec {
  friend bool operator==(const AsynchronousSpec&, const AsynchronousSpec&) = default;
};

struct BoundedStalenessSpec {
  int64_t steps = 0;  // how many steps a step may be ahead of the oldest one that is not done

  friend bool operator==(const BoundedStalenessSpec&, const BoundedStalenessSpec&) = default;
};

struct SynchronousSpec {
  int64_t aggregate = 1;     // steps of which the mean is one update
  int64_t backup_steps = 0;  // extra steps that run in the place of the slowest

  friend bool operator==(const SynchronousSpec&, const SynchronousSpec&) = default;
};

using ConsistencySpec = std::variant<AsynchronousSpec, BoundedStalenessSpec, SynchronousSpec>;

// The types in which float32 values travel between workers and parameter servers (docs/JOB_FILE.md,
// strategy.compression).
struct CompressionSpec {
  std::string pull_dtype = "float32";  // values: "float32", "float16", "bfloat16"
  std::string push_dtype = "float32";  // gradients
  double top_k = 1;  // the fraction of the elements of a gradient that travels, the largest

  friend bool operator==(const CompressionSpec&, const CompressionSpec&) = default;
};

inline constexpr char kParameterServer[] = "parameter_server";
inline constexpr char kMultiWorkerMirrored[] = "multi_worker_mirrored";

// The way the workers of multi_worker_mirrored add up their gradients (docs/JOB_FILE.md,
// strategy.communication_options).
struct CommunicationSpec {
  std::string implementation = "auto";     // "ring", "nccl"
  int64_t bytes_per_pack = 0;              // 0: chosen
  double timeout_seconds = 0;              // for one exchange; 0: none
  std::string gradient_dtype = "float32";  // type in which gradients travel; "float16", "bfloat16"

  friend bool operator==(const CommunicationSpec&, const CommunicationSpec&) = default;
};

// Returns the known values of `type`.
const std::vector<std::string>& StrategyTypes();

// Options of another type than `type` are checked, kept and not used, so that a job changes its
// strategy by one word.
struct StrategySpec {
  std::string type = kParameterServer;
  // parameter_server.
  // Absent: no variable is cut with placement "round_robin"; for the others, see JOB_FILE.md.
  std::optional<PartitionerSpec> partitioner;
  // Or "bytes", "measured" (coordinator/strategy/placement.h).
  std::string placement = "round_robin";
  ConsistencySpec consistency;
  CompressionSpec compression;
  // The others, with the names of TensorFlow's arguments (coordinator/strategy/local_strategy.h,
  // multi_worker_mirrored_strategy.h).
  std::string device = "cpu:0";  // one_device
  // mirrored, and multi_worker_mirrored of each worker; none: all that it has.
  std::vector<std::string> devices;
  std::string cross_device_ops = "auto";     // mirrored
  int64_t num_packs = 1;                     // mirrored
  std::vector<std::string> compute_devices;  // central_storage; none: all that the worker has
  // central_storage; none: the GPU where one alone computes, else the processor.
  std::string parameter_device;
  CommunicationSpec communication;  // multi_worker_mirrored

  // Returns nullptr if steps do not belong to rounds.
  const SynchronousSpec* synchronous() const {
    return type == kParameterServer ? std::get_if<SynchronousSpec>(&consistency) : nullptr;
  }

  friend bool operator==(const StrategySpec&, const StrategySpec&) = default;
};

}  // namespace cohort
