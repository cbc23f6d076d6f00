#pragma once

// Collective operations between replicas of one process. The ranks leave their spans at a meeting;
// when the last has come, tasks of the executor each combine one slice of all inputs straight into
// all outputs. Nothing is copied but results.

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/communicator.h"
#include "worker/collective/flight_recorder.h"

namespace cohort {

// All ranks of one group. Thread-safe.
class InProcessGroup {
 public:
  struct Options {
    GroupName name;
    int size = 1;
    // At most so many tasks share one operation: the threads of the executor.
    int tasks_max = 1;
    // A call that takes so long is logged with who has not started it, and again after as long.
    absl::Duration stall_after = absl::Seconds(10);
  };

  // Clock and executor outlive the communicators and their calls.
  InProcessGroup(Clock& clock, Executor& executor, Options options);
  ~InProcessGroup();

  // Once for each rank. May outlive this object.
  std::unique_ptr<Communicator> CommunicatorOf(int rank);

  const FlightRecorder& RecorderOf(int rank) const;

 private:
  class Meetings;
  class Rank;
  const std::shared_ptr<Meetings> meetings_;  // shared by the ranks and the tasks of operations
};

}  // namespace cohort
