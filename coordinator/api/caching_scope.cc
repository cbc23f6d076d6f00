#include "coordinator/api/caching_scope.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<CachingScope>> CachingScope::Enter(ClusterCoordinator& coordinator) {
  if (coordinator.read_cache_.Enter()) {
    return std::unique_ptr<CachingScope>(new CachingScope(coordinator.read_cache_));
  }
  return absl::InvalidArgumentError(
      "caching scopes cannot be nested: this thread is inside one; end it first");
}

CachingScope::~CachingScope() { cache_.Leave(thread_); }

}  // namespace cohort
