#pragma once

// Input pipelines: descriptions of data sets, under the names of TensorFlow's tf.data. For example:
//   InputPipeline::FromTensorSlices({x, y}).Shuffle(4).Repeat().Batch(4).spec()

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// A data set that the program describes transform by transform, and that the workers read.
// Thread-compatible.
class InputPipeline {
 public:
  // Makes a data set whose elements are the rows of tensors: element i has row i of every tensor.
  static InputPipeline FromTensorSlices(const std::vector<Tensor>& tensors);
  static InputPipeline Range(int64_t begin, int64_t end);
  // Makes a data set of IDX files (MNIST's format), one file per component of an element. Every
  // worker must be able to read the files.
  static InputPipeline FromIdxFiles(const std::vector<std::string>& paths);

  // Return this data set with one more transform at its end. The message DatasetTransform in
  // proto/plan.proto describes each transform.
  InputPipeline Shuffle(int64_t buffer_size, uint64_t seed = 0) const;
  InputPipeline Repeat(int64_t times = -1) const;
  InputPipeline Batch(int64_t size) const;
  InputPipeline Prefetch(int64_t elements) const;
  // Keeps only the elements of the data set whose position i satisfies i mod num_shards == index.
  InputPipeline Shard(int64_t num_shards, int64_t index) const;
  // Gives each worker one of num_shards shards of the data set. The worker at position p (from 0)
  // gets shard p mod num_shards, so a worker that joins late may get the same shard as another one.
  InputPipeline ShardByWorker(int64_t num_shards) const;

  const proto::DatasetSpec& spec() const { return spec_; }

 private:
  proto::DatasetSpec spec_;
};

}  // namespace cohort
