#pragma once

// The values that caching scopes hold. Each thread has at most one scope at a time, and sees only
// the values of its own scope.

#include <map>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The values of variables that threads have read inside their caching scopes (CachingScope).
// Thread-safe.
class ReadCache {
 public:
  // Begins an empty caching scope for the calling thread. Returns false, and changes nothing, if
  // the thread already has a caching scope.
  bool Enter();
  void Leave(std::thread::id thread);

  // Returns the variable's value from the calling thread's caching scope. If the scope lacks the
  // value or the thread has no scope, calls `read` instead, and stores the value in the thread's
  // scope if there is one.
  absl::StatusOr<Tensor> Read(const std::string& variable,
                              absl::FunctionRef<absl::StatusOr<Tensor>()> read);

 private:
  using Values = std::map<std::string, Tensor>;  // tensors by variable name
  Mutex mutex_;
  std::map<std::thread::id, Values> scopes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
