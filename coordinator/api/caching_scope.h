#pragma once

// TensorFlow's cache_variable_reads(): while a thread is inside the scope, each variable that it
// reads (ClusterCoordinator::Read, ShardedVariable::ConvertToTensor) comes from the parameter
// servers once; later reads give that value again, also where it has been changed meanwhile, by
// this thread or another. Rows and slices that are asked for by number, and what other threads
// read, pass it by. A new scope begins with nothing. Closures need no scope: each pulls a variable
// once, and all of its reads are of what it pulled.

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

// The scope lasts as long as the object; the coordinator outlives it. Thread-compatible.
class CachingScope {
 public:
  // Errors: INVALID_ARGUMENT inside another scope of this thread: scopes are not nested.
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
