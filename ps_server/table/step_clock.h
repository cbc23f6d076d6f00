#pragma once

// The time of a dynamic table: how long it has been trained. It goes on with the steps that are
// applied, by the times that come with them, and never by the clock of the process that holds the
// table. So copies of a table that have applied the same steps have the same time, and so has a
// table that a step is applied to once more behind a restore. Times of two coordinators do not
// compare, nor does time pass between them: under another one it goes on from where it was.

#include <cstdint>

#include "absl/time/time.h"

namespace cohort {

// Thread-compatible.
struct StepClock {
  // The time at which a step was first sent to a worker, by the clock of its coordinator.
  struct StepTime {
    uint64_t ms = 0;
    uint64_t coordinator = 0;  // the coordinator's incarnation
  };

  uint64_t ms = 0;  // the table's time
  StepTime last;    // the latest of all applied steps

  // Advances to an applied step. A step that was sent before the latest one changes nothing.
  void Advance(const StepTime& step) {
    if (step.coordinator != last.coordinator) {
      last = step;
    } else if (step.ms > last.ms) {
      ms += step.ms - last.ms;
      last.ms = step.ms;
    }
  }

  absl::Time Now() const { return absl::FromUnixMillis(static_cast<int64_t>(ms)); }

  friend bool operator==(const StepClock& a, const StepClock& b) {
    return a.ms == b.ms && a.last.ms == b.last.ms && a.last.coordinator == b.last.coordinator;
  }
};

}  // namespace cohort
