#pragma once

// Calls under way that can be cancelled together. Each OpenCalls belongs to the code that starts
// its calls.

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "common/wire/transport.h"

namespace cohort {

// A set of calls under way. Thread-safe.
class OpenCalls {
 public:
  // Registers a call before it is started, because a call may end before its start returns. Returns
  // the id that Started and Ended take.
  uint64_t Enter();
  // Stores the handle of a call that Enter registered, unless the call has ended. Cancels the call
  // if CancelAll ran after Enter.
  void Started(uint64_t id, std::shared_ptr<Call> call);
  void Ended(uint64_t id);
  // Cancels the calls that are registered now. Calls that are registered later are not cancelled.
  void CancelAll();

 private:
  struct Open {
    // The call's handle; null while the call is being started. Shared with the code that starts the
    // call.
    std::shared_ptr<Call> call = nullptr;
    bool cancelled = false;
  };
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Open> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
