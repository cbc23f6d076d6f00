#include "worker/ps_client/gradient_residuals.h"

#include <utility>

namespace cohort {

std::vector<float> GradientResiduals::Take(uint64_t epoch, uint32_t slice_id, size_t elements) {
  // The old residuals, destroyed after the lock is released.
  std::map<uint32_t, std::vector<float>> old;
  MutexLock lock(mutex_);
  // A new epoch may go back to an earlier cut, and old residuals would then count twice.
  if (epoch > epoch_) {
    old.swap(left_);
    epoch_ = epoch;
  }
  const auto found = left_.find(slice_id);
  // A residual of another size belongs to an older layout of the slice and is not used.
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
  // Another push of the slice has ended meanwhile, so the two unsent rests are added up.
  for (size_t i = 0; i < held.size() && i < left.size(); ++i) held[i] += left[i];
}

}  // namespace cohort
