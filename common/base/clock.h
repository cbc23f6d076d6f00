#pragma once

// Time is part of the world that a component is given: real in the daemons, moved by hand in unit
// tests and by the event queue in the simulator. A timer runs its task on the clock's own thread
// (or event), so the task should only post to a strand.

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/executor.h"

namespace cohort {

struct TimerId {
  uint64_t value = 0;  // 0 is no timer
};

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Runs `task` once, not before `when`.
  virtual TimerId CallAt(absl::Time when, Task task) = 0;

  // Returns true if the task had not started; it will never run then.
  virtual bool Cancel(TimerId timer) = 0;
};

}  // namespace cohort
