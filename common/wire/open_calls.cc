#include "common/wire/open_calls.h"

#include <utility>
#include <vector>

namespace cohort {

uint64_t OpenCalls::Enter() {
  MutexLock lock(mutex_);
  calls_[++last_];
  return last_;
}

void OpenCalls::Started(uint64_t id, std::shared_ptr<Call> call) {
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    // A call without an entry has ended while it was being started.
    if (found == calls_.end()) return;
    found->second.call = call;
    if (!found->second.cancelled) return;
  }
  // The call is cancelled outside the lock, because its completion may call Ended, which takes the
  // lock.
  if (call != nullptr) call->Cancel();
}

void OpenCalls::Ended(uint64_t id) {
  Open ended;  // the call's handle dies after the lock is released
  MutexLock lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  ended = std::move(found->second);
  calls_.erase(found);
}

void OpenCalls::CancelAll() {
  // The handles are copied first, because a cancelled call may end and erase its entry while other
  // calls are being cancelled.
  std::vector<std::shared_ptr<Call>> started;
  {
    MutexLock lock(mutex_);
    for (auto& [id, open] : calls_) {
      open.cancelled = true;
      if (open.call != nullptr) started.push_back(open.call);
    }
  }
  for (const std::shared_ptr<Call>& call : started) call->Cancel();
}

}  // namespace cohort
