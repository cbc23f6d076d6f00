#pragma once

// One life of a coordinator that counts: closure i increments a counter for the i-th time, in
// whichever life it runs, so the sum at the end says whether each increment counted once.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

// Thread-compatible; blocks on the coordinator's waiter.
class CounterLife {
 public:
  CounterLife(ClusterCoordinator& coordinator, uint64_t increments)
      : coordinator_(coordinator), increments_(increments) {}

  // Makes the counter and takes up what an earlier life left.
  absl::Status Begin();
  absl::Status ScheduleWhatIsLeft();
  // Increments that are done, those of earlier lives included.
  uint64_t done() const { return done_before_ + coordinator_.stats().done; }
  // The counter, when every result of this life has been fetched.
  absl::StatusOr<float> Finish();

 private:
  ClusterCoordinator& coordinator_;
  const uint64_t increments_;
  uint64_t done_before_ = 0;
  std::optional<Variable> counter_;
  ProgramHandle increment_;
  std::optional<proto::CoordinatorState> left_;
  std::vector<RemoteValue> results_;
};

}  // namespace cohort
