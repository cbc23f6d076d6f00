#pragma once

// A component receives its clock as a parameter: the daemons pass the real time, unit tests move
// the clock by hand, and the simulator moves the clock with its event queue. A timer runs its task
// on the clock's own thread (or event), so a timer's task should only post to a strand.

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/executor.h"

namespace cohort {

struct TimerId {
  uint64_t value = 0;  // no timer has the id 0
};

// The source of time, and the timers, of one component. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Runs `task` once, at the time `when` or later. Returns the timer's id for Cancel.
  virtual TimerId CallAt(absl::Time when, Task task) = 0;

  // Cancels a timer. Returns true if the timer's task had not started; the task then never runs.
  virtual bool Cancel(TimerId timer) = 0;
};

}  // namespace cohort
