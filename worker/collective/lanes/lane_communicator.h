#pragma once

// The communicator between processes: the algorithms of plans.h over lanes. A rank watches every
// other rank, so that all notice a lost one at once, whichever waits for it.

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
  HostLayout hosts;                   // empty: each rank is a host
  std::vector<proto::TaskRef> tasks;  // one per rank, for errors; may be empty
  // The time after which a call is logged with the ranks that have not started it, and logged
  // again.
  absl::Duration stall_after = absl::Seconds(10);
};

// Frames that have been sent by this rank so far.
struct LaneCounters {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;       // bytes of payloads
  uint64_t frames_parked = 0;    // frames that came before their call was started here
  uint64_t frames_in_place = 0;  // frames that were received in the caller's output
};

// Thread-safe.
class LaneCommunicator final : public Communicator {
 public:
  // Operations under way at most, by which a rank may be ahead of another; more calls wait.
  static constexpr size_t kOperationsMax = 64;

  // Makes a communicator. Clock and executor outlive it and its calls; the table is that of the
  // worker's service. All ranks listen before any makes its communicator.
  LaneCommunicator(Clock& clock, Executor& executor, std::shared_ptr<FrameRouter> table,
                   std::unique_ptr<PeerLinks> lanes, LaneGroupOptions options);
  ~LaneCommunicator() override;

  int rank() const override;
  int size() const override;
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  void Start(CollectiveCall call, Done done) override;
  void Abort(absl::Status root_cause) override;

  // Starts a call with all its checks, comparisons and reports, but moves nothing: the call is
  // agreed when all ranks have started the same one. For code that moves the elements by other
  // means (nccl/). A rank that agrees on a call that another rank starts gets INTERNAL or waits.
  void Agree(CollectiveCall call, Done agreed);
  // Runs `told` once when the generation has ended, with the root cause, on the executor; never if
  // it is not aborted.
  void WhenAborted(Done told);

  std::shared_ptr<const FlightRecorder> recorder() const;
  LaneCounters counters() const;

 private:
  const std::shared_ptr<FrameRouter> table_;      // shared by the groups of the worker
  const std::shared_ptr<class LaneGroup> group_;  // shared with frames and timers under way
};

}  // namespace cohort
