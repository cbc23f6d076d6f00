#include "worker/ps_client/gradient_residuals.h"

#include <utility>

namespace cohort {

std::vector<float> GradientResiduals::Take(uint64_t epoch, uint32_t slice_id, size_t elements) {
  std::map<uint32_t, std::vector<float>> old;  // dies after the lock
  MutexLock lock(mutex_);
  if (epoch > epoch_) {
    old.swap(left_);
    epoch_ = epoch;
  }
  const auto found = left_.find(slice_id);
  if (epoch < epoch_ || found == left_.end() || found->second.size() != elements) return {};
  return std::exchange(found->second, {});
}

void GradientResiduals::Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left) {
  if (left.empty()) return;
  MutexLock lock(mutex_);
  if (epoch != epoch_) return;
  std::vector<float>& held = left_[slice_id];
  if (held.empty()) {
    held = std::move(left);
    return;
  }
  for (size_t i = 0; i < held.size() && i < left.size(); ++i) held[i] += left[i];
}

}  // namespace cohort
