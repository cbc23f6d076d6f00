#pragma once

// The communicator whose ranks send frames to each other: it runs the algorithms of plans.h over
// lanes (a lane is the way from one rank to another). A rank watches every other rank, so that all
// ranks notice a lost rank at once, whichever rank needs it.

#include <memory>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/communicator.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/lanes/frame_router.h"
#include "worker/collective/lanes/lane_group_options.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// One rank's end of a group that sends frames. Thread-safe.
class LaneCommunicator final : public Communicator {
 public:
  // Makes a communicator. The clock and the executor outlive the communicator and its calls.
  // `router` is the FrameRouter of the worker. All ranks must listen before any rank makes its
  // communicator.
  LaneCommunicator(Clock& clock, Executor& executor, std::shared_ptr<FrameRouter> router,
                   std::unique_ptr<PeerLinks> links, LaneGroupOptions options);
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
  // Runs `aborted` once, on the executor, with the root cause, when the generation has been
  // aborted.
  void WhenAborted(Done aborted);

  std::shared_ptr<const FlightRecorder> recorder() const;
  LaneCounters counters() const;

 private:
  // Hands RPCs to the groups of the worker, which share it.
  const std::shared_ptr<FrameRouter> router_;
  // The state of this rank; shared with the callbacks of frames and timers.
  const std::shared_ptr<class LaneGroup> group_;
};

}  // namespace cohort
