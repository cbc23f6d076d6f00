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
    if (found == calls_.end()) return;
    found->second.call = call;
    if (!found->second.cancelled) return;
  }
  if (call != nullptr) call->Cancel();
}

void OpenCalls::Ended(uint64_t id) {
  Open ended;  // dies after the lock
  MutexLock lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  ended = std::move(found->second);
  calls_.erase(found);
}

void OpenCalls::CancelAll() {
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
