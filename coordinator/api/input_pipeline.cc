#include "coordinator/api/input_pipeline.h"

namespace cohort {

InputPipeline InputPipeline::FromTensorSlices(const std::vector<Tensor>& tensors) {
  InputPipeline dataset;
  for (const Tensor& tensor : tensors) {
    proto::InlineTensor* const added =
        dataset.spec_.mutable_source()->mutable_inline_tensors()->add_tensors();
    added->set_dtype(static_cast<int32_t>(tensor.dtype()));
    for (const int64_t dim : tensor.shape().dims()) added->add_dims(dim);
    // The values of the tensor travel in the description of the data set, so no worker needs a
    // file.
    added->set_data(tensor.raw(), tensor.num_bytes());
  }
  return dataset;
}

InputPipeline InputPipeline::Range(int64_t begin, int64_t end) {
  InputPipeline dataset;
  dataset.spec_.mutable_source()->mutable_range()->set_begin(begin);
  dataset.spec_.mutable_source()->mutable_range()->set_end(end);
  return dataset;
}

InputPipeline InputPipeline::FromIdxFiles(const std::vector<std::string>& paths) {
  InputPipeline dataset;
  for (const std::string& path : paths) {
    dataset.spec_.mutable_source()->mutable_idx()->add_paths(path);
  }
  return dataset;
}

InputPipeline InputPipeline::Shuffle(int64_t buffer_size, uint64_t seed) const {
  InputPipeline dataset = *this;
  proto::Shuffle* const shuffle = dataset.spec_.add_transforms()->mutable_shuffle();
  shuffle->set_buffer_size(buffer_size);
  shuffle->set_seed(seed);
  shuffle->set_reshuffle_each_iteration(true);
  return dataset;
}

InputPipeline InputPipeline::Repeat(int64_t times) const {
  InputPipeline dataset = *this;
  dataset.spec_.add_transforms()->set_repeat(times);
  return dataset;
}

InputPipeline InputPipeline::Batch(int64_t size) const {
  InputPipeline dataset = *this;
  dataset.spec_.add_transforms()->mutable_batch()->set_size(size);
  return dataset;
}

InputPipeline InputPipeline::Prefetch(int64_t elements) const {
  InputPipeline dataset = *this;
  dataset.spec_.add_transforms()->set_prefetch(elements);
  return dataset;
}

InputPipeline InputPipeline::Shard(int64_t num_shards, int64_t index) const {
  InputPipeline dataset = *this;
  proto::Shard* const shard = dataset.spec_.add_transforms()->mutable_shard();
  shard->set_num_shards(num_shards);
  shard->set_index(index);
  return dataset;
}

InputPipeline InputPipeline::ShardByWorker(int64_t num_shards) const {
  InputPipeline dataset = *this;
  proto::Shard* const shard = dataset.spec_.add_transforms()->mutable_shard();
  shard->set_num_shards(num_shards);
  shard->set_by_worker(true);
  return dataset;
}

}  // namespace cohort
