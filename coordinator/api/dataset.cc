#include "coordinator/api/dataset.h"

namespace cohort {

Dataset Dataset::FromTensorSlices(const std::vector<Tensor>& tensors) {
  Dataset dataset;
  for (const Tensor& tensor : tensors) {
    proto::InlineTensor* const added =
        dataset.spec_.mutable_source()->mutable_inline_tensors()->add_tensors();
    added->set_dtype(static_cast<int32_t>(tensor.dtype()));
    for (const int64_t dim : tensor.shape().dims()) added->add_dims(dim);
    added->set_data(tensor.raw(), tensor.num_bytes());
  }
  return dataset;
}

Dataset Dataset::Range(int64_t begin, int64_t end) {
  Dataset dataset;
  dataset.spec_.mutable_source()->mutable_range()->set_begin(begin);
  dataset.spec_.mutable_source()->mutable_range()->set_end(end);
  return dataset;
}

Dataset Dataset::FromIdxFiles(const std::vector<std::string>& paths) {
  Dataset dataset;
  for (const std::string& path : paths) {
    dataset.spec_.mutable_source()->mutable_idx()->add_paths(path);
  }
  return dataset;
}

Dataset Dataset::Shuffle(int64_t buffer_size, uint64_t seed) const {
  Dataset dataset = *this;
  proto::Shuffle* const shuffle = dataset.spec_.add_transforms()->mutable_shuffle();
  shuffle->set_buffer_size(buffer_size);
  shuffle->set_seed(seed);
  shuffle->set_reshuffle_each_iteration(true);
  return dataset;
}

Dataset Dataset::Repeat(int64_t times) const {
  Dataset dataset = *this;
  dataset.spec_.add_transforms()->set_repeat(times);
  return dataset;
}

Dataset Dataset::Batch(int64_t size) const {
  Dataset dataset = *this;
  dataset.spec_.add_transforms()->mutable_batch()->set_size(size);
  return dataset;
}

Dataset Dataset::Prefetch(int64_t elements) const {
  Dataset dataset = *this;
  dataset.spec_.add_transforms()->set_prefetch(elements);
  return dataset;
}

}  // namespace cohort
