#include "coordinator/train/epoch_meter.h"

#include <algorithm>

namespace cohort {

namespace {

double ScalarOf(const Tensor& tensor) {
  if (tensor.num_elements() != 1) return 0;
  if (tensor.dtype() == DType::kFloat32) return *tensor.data<float>();
  if (tensor.dtype() == DType::kFloat64) return *tensor.data<double>();
  if (tensor.dtype() == DType::kInt64) return static_cast<double>(*tensor.data<int64_t>());
  return 0;
}

}  // namespace

void EpochMeter::Add(const absl::StatusOr<FetchedTensors>& fetches) {
  if (!fetches.ok()) return;  // the queue has recorded the error
  MutexLock lock(mutex_);
  ++steps_;
  for (size_t i = 0; i < std::min(sums_.size(), fetches->size()); ++i) {
    sums_[i] += ScalarOf((*fetches)[i]);
  }
}

EpochMeter::Reading EpochMeter::Read() const {
  MutexLock lock(mutex_);
  Reading reading;
  reading.steps = steps_;
  if (sums_.size() < 2) return reading;
  reading.examples = sums_[1];
  const double divisor = std::max(reading.examples, 1.0);
  reading.loss = sums_[0] / divisor;
  for (size_t i = 2; i < sums_.size(); ++i) reading.metrics.push_back(sums_[i] / divisor);
  return reading;
}

}  // namespace cohort
