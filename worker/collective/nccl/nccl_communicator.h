#pragma once

// The communicator of ranks that have a GPU each: NCCL moves and sums, and a group of frames over
// the same ranks (lane_communicator.h), the control group, says what they do and how it ends.
//
//   Start --> control group: all ranks have started this call --> NCCL --> done
//
// Each call is agreed first, with nothing but its description and fingerprint on the wire, so that
// NCCL never sees calls that differ or that a lost rank has not made: NCCL itself would stand, or
// give wrong numbers. It costs a call of the control group, of which many are under way at once.
// Root causes, timeouts and losses are those of the control group. When it ends, or NCCL reports an
// error, the NCCL communicator is aborted on every rank and never reused, and all calls end with
// the cause.
//
// Elements come from the caller's memory, which is the host's, through staging memory to the device
// and back (nccl_device.h), in pieces. Sums and products are in NCCL's order: all ranks have the
// same bits, and another run has them where NCCL, the ranks, their GPUs and the sizes are the same.
// All else of a result is as in every communicator (nccl_elements.h). Wishes for an algorithm are
// ignored.
//
// Calls are numbered as those of the control group, of which joining takes kCallsToJoin.

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
  LaneGroupOptions group;  // the control group's
  int device = 0;          // CUDA's number of this rank's GPU; no two ranks have the same one
  absl::Duration join_timeout = absl::Seconds(60);
  // The time for the work on the GPU to end after an abort, which normally takes milliseconds;
  // afterwards calls end all the same, and the GPU keeps its staging memory.
  absl::Duration abort_wait = absl::Seconds(10);
  // Kept as long as the communicator: 3 times 2 of them pinned, and as many of the device's.
  size_t piece_bytes = size_t{8} << 20;
};

// Thread-safe.
class NcclCommunicator final : public Communicator {
 public:
  static constexpr uint64_t kCallsToJoin = 2;

  // Makes a communicator. Clock and executor outlive it and its calls; a table that LoadNccl
  // returned lives for ever. An error instead of a table is told to all ranks. `joined` runs once,
  // on the executor; its error is FAILED_PRECONDITION naming the ranks that have no GPU or no NCCL
  // and why, DEADLINE_EXCEEDED, UNAVAILABLE with NCCL's words, or the cause for which the control
  // group ended; every call ends with it. Calls may be started before.
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
  // The call whose pieces are being posted.
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

  // Calls: nccl_communicator.cc.
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

  // The joining of the ranks: nccl_join.cc.
  absl::Status Join();
  NcclPass OwnPass();
  absl::Status AskControl(CollectiveCall call);

  Clock& clock_;
  Executor& executor_;
  const absl::StatusOr<const NcclTable*> table_;
  const NcclOptions options_;
  // Synchronises itself. Shared with readers, also when the group is over.
  const std::shared_ptr<FlightRecorder> recorder_;
  const std::shared_ptr<NcclCalls> calls_;  // shared with what the control group answers
  const std::unique_ptr<LaneCommunicator> control_;
  std::atomic<bool> joined_{false};

  // The thread's.
  std::unique_ptr<NcclDevice> device_;
  uint64_t next_to_post_ = kCallsToJoin;
  std::optional<Posting> posting_;
  std::deque<PieceUnderWay> under_way_;
  uint64_t pieces_posted_ = 0;
  uint64_t pieces_collected_ = 0;
  bool failed_ = false;  // the control group has been told
  absl::Time stall_logged_ = absl::InfinitePast();

  std::thread thread_;  // last: uses all of the above
};

}  // namespace cohort
