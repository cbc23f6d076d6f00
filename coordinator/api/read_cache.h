#pragma once

// Values of variables that threads inside a caching scope (caching_scope.h) have read.

#include <map>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-safe.
class ReadCache {
 public:
  // The calling thread has a scope, which is empty. False: it had one before.
  bool Enter();
  void Leave(std::thread::id thread);

  // What the calling thread's scope has of the variable. Without that, what `read` gives, which a
  // scope keeps.
  absl::StatusOr<Tensor> Read(const std::string& variable,
                              absl::FunctionRef<absl::StatusOr<Tensor>()> read);

 private:
  using Values = std::map<std::string, Tensor>;  // by variable
  Mutex mutex_;
  std::map<std::thread::id, Values> scopes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
