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
  // Called outside the lock: a callback may ask for the result, or end other closures.
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
  // Called outside the lock, after `set_` was seen: the result does not change any more.
  callback(result());
}

const absl::StatusOr<FetchedTensors>& RemoteValueState::result() const {
  MutexLock lock(mutex_);
  return result_;  // never written again once it is set
}

}  // namespace cohort
