#pragma once

// The time of a dynamic table: how long the table has been trained. The time advances with the
// steps that are applied, by the times that the steps bring, and never by the clock of the process
// that holds the table. So copies of a table that have applied the same steps have the same time,
// and so has a restored table that applies a step again. The times of two coordinators cannot be
// compared, and no time passes between them: with another coordinator the table's time continues
// from where it was.

#include <cstdint>

#include "absl/time/time.h"

namespace cohort {

// The clock of a dynamic table, advanced by applied steps only. Thread-compatible.
struct StepClock {
  // The time at which a step was first sent to a worker, by the clock of the step's coordinator.
  struct StepTime {
    uint64_t ms = 0;
    uint64_t coordinator = 0;  // the incarnation of the coordinator
  };

  uint64_t ms = 0;  // the table's time
  StepTime last;    // the latest send time of all applied steps

  // Advances the table's time to an applied step. A step that was sent before the latest applied
  // step changes nothing.
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
