#pragma once

// The number of slices that a variable is cut into along axis 0, by TensorFlow's formulas
// (tensorflow/python/distribute/sharded_variable.py):
//
//   FixedShards  min(num_shards, dim0)
//   MinSize      max(1, min(dim0, max_shards, ceil(total_bytes / min_shard_bytes))). Because of the
//                rounding up, a shard may be smaller than the minimum. With strict_minimum: the
//                largest n for which every slice has at least min_shard_bytes, at most max_shards
//                and at least 1.
//   MaxSize      ceil(dim0 / max(1, floor(max_shard_bytes / row_bytes))), at most max_shards
//
// The rows are distributed over the slices by the "div" rule (common/tensor/slice_spec.h).

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "coordinator/job/strategy_spec.h"

namespace cohort {

// A rule that says into how many slices a variable is cut. Immutable. Thread-safe.
class Partitioner {
 public:
  virtual ~Partitioner() = default;
  // Returns the number of slices along each axis, with one entry per axis. The caller checks the
  // result (variable_creator.h). Errors: INVALID_ARGUMENT for a shape without an axis 0, with an
  // unknown dimension, or of more than 2^63 bytes.
  virtual absl::StatusOr<std::vector<int64_t>> Partition(DType dtype, const Shape& shape) const = 0;
};

// Makes the partitioner that `spec` describes. Errors: INVALID_ARGUMENT naming an argument that is
// below 1.
absl::StatusOr<std::unique_ptr<const Partitioner>> MakePartitioner(const PartitionerSpec& spec);

}  // namespace cohort
