#pragma once

// The communicator of ranks that have a GPU each. NCCL moves and sums the elements. The control
// group, a group of frames over the same ranks (lane_communicator.h), says which calls the ranks
// make and how the group ends.
//
//   Start --> control group: all ranks have started this call --> NCCL --> done
//
// The ranks agree on each call first; only the description and the fingerprint of the call are on
// the wire. So NCCL never sees calls that differ, or calls that a lost rank has not made: NCCL
// itself would hang or give wrong numbers. Agreement costs one call of the control group; many such
// calls are under way at once. Root causes, timeouts and losses are those of the control group.
// When the control group ends, or NCCL reports an error, the NCCL communicator is aborted on every
// rank and never used again, and all calls end with the cause.
//
// Elements go in pieces from the caller's memory, which is the host's, through staging memory to
// the device and back (nccl_device.h). Sums and products are in NCCL's order. All ranks have the
// same bits; another run has the same bits if NCCL, the ranks, their GPUs and the sizes are the
// same. Everything else about a result is as in every communicator (nccl_elements.h). Wishes for an
// algorithm are ignored.
//
// Calls have the numbers of the control group's calls; joining takes the first kCallsToJoin
// numbers.

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/communicator.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/lanes/lane_communicator.h"
#include "worker/collective/nccl/nccl_calls.h"
#include "worker/collective/nccl/nccl_device.h"
#include "worker/collective/nccl/nccl_pass.h"

namespace cohort {

struct NcclOptions {
  LaneGroupOptions group;  // options of the group of frames that controls the NCCL group
  int device = 0;          // CUDA's number of this rank's GPU; no two ranks have the same GPU
  absl::Duration join_timeout = absl::Seconds(60);
  // The time that the work on the GPU has to end after an abort, which normally takes milliseconds.
  // After this time the calls end although the work has not ended, and the GPU keeps its staging
  // memory.
  absl::Duration abort_wait = absl::Seconds(10);
  // The size in bytes of the pieces into which calls are cut. As long as it lives, the communicator
  // keeps 3 times 2 buffers of this size in pinned host memory, and as many on the device.
  size_t piece_bytes = size_t{8} << 20;
};

// The communicator of one rank over NCCL. Thread-safe.
class NcclCommunicator final : public Communicator {
 public:
  static constexpr uint64_t kCallsToJoin = 2;

  // Makes a communicator. The clock and the executor must outlive the communicator and its calls; a
  // table that LoadNccl returned lives for ever. If `table` is an error, all ranks learn the error.
  // `joined` runs once, on the executor, when the ranks have joined NCCL or failed to join. Its
  // error is FAILED_PRECONDITION that names the ranks without GPU or NCCL and the reasons,
  // DEADLINE_EXCEEDED, UNAVAILABLE with NCCL's words, or the cause for which the control group
  // ended. After an error every call ends with that error. Calls may be started before `joined`
  // runs.
  NcclCommunicator(Clock& clock, Executor& executor, absl::StatusOr<const NcclTable*> table,
                   std::unique_ptr<LaneCommunicator> control, NcclOptions options, Done joined);
  ~NcclCommunicator() override;

  int rank() const override { return options_.group.rank; }
  int size() const override { return options_.group.size; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  void Start(CollectiveCall call, Done done) override;
  void Abort(absl::Status root_cause) override;

  std::shared_ptr<const FlightRecorder> recorder() const { return recorder_; }

 private:
  // The call whose pieces the thread is posting to the device.
  struct Posting {
    Posting(const NcclCall& call, const NcclOptions& options);
    const NcclCall& call;
    const NcclElements elements;
    const NcclPieces pieces;
    int64_t next = 0;
  };
  struct PieceUnderWay {
    const NcclCall* call = nullptr;
    NcclElements elements;
    NcclPiece piece;
    size_t slot = 0;
    bool last = false;
  };

  // Methods that run collective calls on the GPU.
  void Serve(Done joined);
  void AskForAgreement();
  void PostAgreed();
  absl::Status PostPiece();
  void Collect();
  void LookAround();
  void LookForLateCalls();
  void Fail(const absl::Status& status);
  void End();
  void Complete(uint64_t sequence, const absl::Status& status);
  absl::Status WaitUntilPosted(absl::Time deadline);

  // Methods that join the ranks to one NCCL group.
  absl::Status Join();
  NcclPass OwnPass();
  absl::Status AskControl(CollectiveCall call);

  Clock& clock_;
  Executor& executor_;
  const absl::StatusOr<const NcclTable*> table_;
  const NcclOptions options_;
  // The flight recorder; thread-safe. Shared with readers of the records, which may outlive the
  // group.
  const std::shared_ptr<FlightRecorder> recorder_;
  // The calls that are not done; shared with the callbacks of the control group.
  const std::shared_ptr<NcclCalls> calls_;
  const std::unique_ptr<LaneCommunicator> control_;
  std::atomic<bool> joined_{false};

  // The members below are used by the communicator's thread only.
  std::unique_ptr<NcclDevice> device_;
  uint64_t next_to_post_ = kCallsToJoin;
  std::optional<Posting> posting_;
  std::deque<PieceUnderWay> under_way_;
  uint64_t pieces_posted_ = 0;
  uint64_t pieces_collected_ = 0;
  bool failed_ = false;  // true after a failure of this rank or after the group's end
  absl::Time stall_logged_ = absl::InfinitePast();

  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace cohort
