#pragma once

// Clock is the source of time and of timers. Each component receives its Clock as a constructor
// parameter: the daemons pass the machine's time, unit tests move a clock by hand, and the
// simulator moves a clock with its event queue. A timer's task runs on the clock's own thread (in
// the simulator, as an event of the simulation), so the task should only post its work to a strand.

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/executor.h"

namespace cohort {

struct TimerId {
  uint64_t value = 0;  // no timer has the id 0
};

// A source of the present time and of timers. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Runs `task` once, at the time `when` or later. Returns the timer's id for Cancel.
  virtual TimerId CallAt(absl::Time when, Task task) = 0;

  // Cancels a timer. Returns true if the timer's task had not started: the task then never runs.
  // Returns false if the task has started or the timer was cancelled before.
  virtual bool Cancel(TimerId timer) = 0;
};

}  // namespace cohort
