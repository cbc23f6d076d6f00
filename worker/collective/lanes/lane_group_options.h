#pragma once

// What a group whose ranks send frames to each other is told, and what it counts.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "proto/error.pb.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/plan/algorithm_choice.h"

namespace cohort {

// Upper bound on the operations under way in a group. A rank is at most this number of operations
// ahead of another rank; further calls wait.
inline constexpr size_t kLaneOperationsMax = 64;

struct LaneGroupOptions {
  GroupName name;
  int rank = 0;
  int size = 1;
  HostLayout hosts;  // hosts of the ranks; if empty, every rank has a host of its own
  std::vector<proto::TaskRef> tasks;  // the task of each rank, for error messages; may be empty
  // The time after which a call that is not done is logged, with the ranks that have not started
  // it; logged again at this interval.
  absl::Duration stall_after = absl::Seconds(10);
};

// The numbers of frames and bytes that this rank has sent and received so far.
struct LaneCounters {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;       // bytes of payload in the frames sent
  uint64_t frames_parked = 0;    // frames that came before this rank had begun their call
  uint64_t frames_in_place = 0;  // frames that were received directly in a caller's output
};

}  // namespace cohort
