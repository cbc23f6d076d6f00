#include "coordinator/schedule/remote_value.h"

#include <utility>

namespace cohort {

void RemoteValueState::Set(absl::StatusOr<FetchedTensors> result) {
  std::vector<Callback> callbacks;
  {
    MutexLock lock(mutex_);
    if (set_) return;
    set_ = true;
    result_ = std::move(result);
    callbacks.swap(callbacks_);
  }
  // Callbacks run outside the lock, because a callback may ask for the result or end other
  // closures.
  ready_.Notify();
  for (const Callback& callback : callbacks) callback(this->result());
}

bool RemoteValueState::IsReady() const { return ready_.HasHappened(); }

void RemoteValueState::OnReady(Callback callback) {
  {
    MutexLock lock(mutex_);
    if (!set_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  // `callback` may read the result outside the lock, because a result that is set never changes.
  callback(result());
}

const absl::StatusOr<FetchedTensors>& RemoteValueState::result() const {
  MutexLock lock(mutex_);
  return result_;  // once set, the result never changes
}

}  // namespace cohort
