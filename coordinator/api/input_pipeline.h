#pragma once

// Input pipelines under tf.data's names:
//   InputPipeline::FromTensorSlices({x, y}).Shuffle(4).Repeat().Batch(4).spec()

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Thread-compatible.
class InputPipeline {
 public:
  // Axis 0 of every tensor counts the elements.
  static InputPipeline FromTensorSlices(const std::vector<Tensor>& tensors);
  static InputPipeline Range(int64_t begin, int64_t end);
  // Reads IDX files, one per component, which must be readable on every worker.
  static InputPipeline FromIdxFiles(const std::vector<std::string>& paths);

  // Return this data set with one more transform (proto/plan.proto says what each does).
  InputPipeline Shuffle(int64_t buffer_size, uint64_t seed = 0) const;
  InputPipeline Repeat(int64_t times = -1) const;
  InputPipeline Batch(int64_t size) const;
  InputPipeline Prefetch(int64_t elements) const;
  // Takes element i if i mod num_shards is index.
  InputPipeline Shard(int64_t num_shards, int64_t index) const;
  // Takes, on each worker, the shard of its own index, which counts the workers from 0, mod
  // num_shards: a worker that came late shares its shard with another.
  InputPipeline ShardByWorker(int64_t num_shards) const;

  const proto::DatasetSpec& spec() const { return spec_; }

 private:
  proto::DatasetSpec spec_;
};

}  // namespace cohort
