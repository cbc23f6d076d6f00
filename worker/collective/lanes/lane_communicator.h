#pragma once

// The communicator whose ranks send frames to each other: it runs the algorithms of plans.h over
// lanes (a lane is the way from one rank to another). A rank watches every other rank, so that all
// ranks notice a lost rank at once, whichever rank needs it.

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

// One rank's end of a group that sends frames. Thread-safe.
class LaneCommunicator final : public Communicator {
 public:
  // Upper bound of the operations under way. A rank is at most this number of operations ahead of
  // another rank; further calls wait.
  static constexpr size_t kOperationsMax = 64;

  // Makes a communicator. The clock and the executor outlive the communicator and its calls.
  // `table` is the FrameRouter of the worker. All ranks must listen before any rank makes its
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
  // like any other call. `agreed` gets OK when all ranks have started the same call. For code that
  // moves the elements by other means (nccl/). If one rank calls Agree() and another rank calls
  // Start() for the same call, the first rank gets INTERNAL or waits.
  void Agree(CollectiveCall call, Done agreed);
  // Runs `told` once, on the executor, with the root cause, when the generation has been aborted.
  void WhenAborted(Done told);

  std::shared_ptr<const FlightRecorder> recorder() const;
  LaneCounters counters() const;

 private:
  // Hands RPCs to the groups of the worker, which share it.
  const std::shared_ptr<FrameRouter> table_;
  // The state of this rank; shared with the callbacks of frames and timers.
  const std::shared_ptr<class LaneGroup> group_;
};

}  // namespace cohort
