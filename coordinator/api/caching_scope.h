#pragma once

// A scope with the meaning of TensorFlow's cache_variable_reads(). While a thread is inside the
// scope, each variable that the thread reads (ClusterCoordinator::Read,
// ShardedVariable::ConvertToTensor) is fetched from the parameter servers once. Later reads return
// the fetched value again, even if this thread or another has changed the variable since. The cache
// does not serve reads of single rows or slices, nor reads by other threads. A new scope begins
// with an empty cache. Closures need no scope: a closure pulls each variable once, and all of its
// reads see the pulled value.

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

// A caching scope of one thread, which lasts as long as this object. The coordinator outlives the
// scope. Thread-compatible.
class CachingScope {
 public:
  // Begins a caching scope of the calling thread. Errors: INVALID_ARGUMENT if the thread is already
  // inside a scope: scopes are not nested.
  static absl::StatusOr<std::unique_ptr<CachingScope>> Enter(ClusterCoordinator& coordinator);
  ~CachingScope();
  CachingScope(const CachingScope&) = delete;
  CachingScope& operator=(const CachingScope&) = delete;

 private:
  explicit CachingScope(ReadCache& cache) : cache_(cache), thread_(std::this_thread::get_id()) {}

  ReadCache& cache_;
  const std::thread::id thread_;
};

}  // namespace cohort
