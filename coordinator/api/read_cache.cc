#include "coordinator/api/read_cache.h"

#include "common/base/status.h"

namespace cohort {

bool ReadCache::Enter() {
  MutexLock lock(mutex_);
  return scopes_.emplace(std::this_thread::get_id(), Values()).second;
}

void ReadCache::Leave(std::thread::id thread) {
  MutexLock lock(mutex_);
  scopes_.erase(thread);
}

absl::StatusOr<Tensor> ReadCache::Read(const std::string& variable,
                                       absl::FunctionRef<absl::StatusOr<Tensor>()> read) {
  {
    MutexLock lock(mutex_);
    const auto scope = scopes_.find(std::this_thread::get_id());
    if (scope != scopes_.end()) {
      const auto value = scope->second.find(variable);
      if (value != scope->second.end()) return value->second.Clone();
    }
  }
  // The lock of the cache is not held during the read, which waits for parameter servers.
  ASSIGN_OR_RETURN(Tensor value, read());
  MutexLock lock(mutex_);
  const auto scope = scopes_.find(std::this_thread::get_id());
  if (scope != scopes_.end()) scope->second.emplace(variable, value.Clone());
  return value;
}

}  // namespace cohort
