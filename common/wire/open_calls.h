#pragma once

// Calls under way that can be cancelled together. Internal to the code that starts them.

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "common/wire/transport.h"

namespace cohort {

// Thread-safe.
class OpenCalls {
 public:
  // Announces a call before its start, because it may end inside its start. Returns its id.
  uint64_t Enter();
  // Notes that the call that Enter announced was started; it may have ended since. Cancels it at
  // once if CancelAll ran in between.
  void Started(uint64_t id, std::shared_ptr<Call> call);
  void Ended(uint64_t id);
  // Cancels the calls that are under way, and none that is entered later.
  void CancelAll();

 private:
  struct Open {
    std::shared_ptr<Call> call = nullptr;  // null: being started. Shared with its starter.
    bool cancelled = false;
  };
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Open> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
