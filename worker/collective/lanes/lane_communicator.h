#pragma once

// The communicator between processes: the algorithms of plans.h over lanes. A rank watches every
// other rank, so that all ranks notice a lost rank at once, whichever rank waits for it.

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "proto/error.pb.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/communicator.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/lanes/frame_router.h"
#include "worker/collective/lanes/peer_links.h"
#include "worker/collective/plan/algorithm_choice.h"

namespace cohort {

struct LaneGroupOptions {
  GroupName name;
  int rank = 0;
  int size = 1;
  HostLayout hosts;                   // the host of each rank; if empty, each rank has its own host
  std::vector<proto::TaskRef> tasks;  // the task of each rank, for error messages; may be empty
  // The time after which a call that is not done is logged with the ranks that have not started it.
  // The log line is repeated at this interval.
  absl::Duration stall_after = absl::Seconds(10);
};

// Counts of the frames that this rank has sent and received so far.
struct LaneCounters {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;       // bytes of payload in the frames sent
  uint64_t frames_parked = 0;    // frames that came before this rank began their call
  uint64_t frames_in_place = 0;  // frames that were received directly in the caller's output
};

// The communicator of one rank over lanes. Thread-safe.
class LaneCommunicator final : public Communicator {
 public:
  // Upper bound of the operations under way. A rank is ahead of another rank by at most this number
  // of operations; further calls wait.
  static constexpr size_t kOperationsMax = 64;

  // Makes a communicator. The clock and the executor must outlive the communicator and its calls.
  // `table` is the router of the worker's service. All ranks must listen before any rank makes its
  // communicator.
  LaneCommunicator(Clock& clock, Executor& executor, std::shared_ptr<FrameRouter> table,
                   std::unique_ptr<PeerLinks> lanes, LaneGroupOptions options);
  ~LaneCommunicator() override;

  int rank() const override;
  int size() const override;
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  void Start(CollectiveCall call, Done done) override;
  void Abort(absl::Status root_cause) override;

  // Starts a call that moves no elements, but is checked, compared between the ranks and reported
  // like every other call. The call is agreed when all ranks have started the same call. Agree is
  // for code that moves the elements by other means (nccl/). If one rank calls Agree and another
  // rank calls Start for the same call, the first rank gets INTERNAL or waits.
  void Agree(CollectiveCall call, Done agreed);
  // Runs `told` once, on the executor, when the generation has ended, with the root cause. `told`
  // never runs if the generation is not aborted.
  void WhenAborted(Done told);

  std::shared_ptr<const FlightRecorder> recorder() const;
  LaneCounters counters() const;

 private:
  // Router of frames, shared by the groups of the worker.
  const std::shared_ptr<FrameRouter> table_;
  // The state of this rank; shared with frames and timers under way.
  const std::shared_ptr<class LaneGroup> group_;
};

}  // namespace cohort
