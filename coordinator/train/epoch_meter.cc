#include "coordinator/train/epoch_meter.h"

#include <algorithm>
#include <cmath>

#include "common/base/log.h"

namespace cohort {

namespace {

template <typename T>
void Append(const Tensor& tensor, std::vector<double>& to) {
  for (const T value : tensor.span<T>()) to.push_back(static_cast<double>(value));
}

// Appends the numbers of a fetched tensor. Fetches of a trainer are float32, float64 or int64; any
// other tensor counts as zeros.
void AppendNumbers(const Tensor& tensor, std::vector<double>& to) {
  if (tensor.dtype() == DType::kFloat32) return Append<float>(tensor, to);
  if (tensor.dtype() == DType::kFloat64) return Append<double>(tensor, to);
  if (tensor.dtype() == DType::kInt64) return Append<int64_t>(tensor, to);
  to.resize(to.size() + static_cast<size_t>(tensor.num_elements()), 0.0);
}

}  // namespace

std::vector<EpochMeter::Sums> EpochMeter::StepsOf(const absl::StatusOr<FetchedTensors>& fetches,
                                                  size_t steps) {
  std::vector<Sums> sums;
  if (!fetches.ok()) return sums;
  // A closure's fetches are those of its steps, one step after another. Each step has the same
  // number of fetches.
  const size_t fetched_by_step = fetches->size() / steps;
  for (size_t step = 0; step < steps; ++step) {
    Sums& of_step = sums.emplace_back();
    of_step.steps = 1;
    for (size_t i = 0; i < fetched_by_step; ++i) {
      AppendNumbers((*fetches)[step * fetched_by_step + i], of_step.values);
    }
  }
  return sums;
}

void EpochMeter::Sums::Add(const Sums& other) {
  steps += other.steps;
  // If these sums are still empty, they take the number of values from the first sums that are
  // added to them.
  values.resize(std::max(values.size(), other.values.size()), 0.0);
  for (size_t i = 0; i < other.values.size(); ++i) values[i] += other.values[i];
}

void EpochMeter::Add(const std::vector<Sums>& steps) {
  MutexLock lock(mutex_);
  for (const Sums& step : steps) sums_.Add(step);
}

EpochMeter::Sums EpochMeter::sums() const {
  MutexLock lock(mutex_);
  return sums_;
}

EpochMeter::Reading EpochMeter::ReadingOf(const Sums& sums) {
  Reading reading;
  reading.steps = sums.steps;
  const std::vector<double>& values = sums.values;
  // Before the first step has reported, there are no sums to divide.
  if (values.size() < 2) return reading;
  reading.examples = values[1];
  // If there are no examples, all sums are 0, and so are the means.
  const double divisor = std::max(reading.examples, 1.0);
  reading.loss = values[0] / divisor;
  reading.states.assign(values.begin() + 2, values.end());
  return reading;
}

void LossWatch::See(int64_t first_step, const std::vector<EpochMeter::Sums>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<double>& values = steps[i].values;
    // `said_` makes sure that only one of the transport's threads logs the warning, and only once.
    if (values.empty() || std::isfinite(values[0]) || said_.exchange(true)) continue;
    Log(LogLevel::kWarning, "loss_not_finite",
        {{"step", first_step + static_cast<int64_t>(i)},
         {"loss", values[0]},
         {"remedy",
          "a smaller learning rate, or gradient clipping (clipnorm); "
          "from the first step on, the data may have NaN"}});
  }
}

}  // namespace cohort
