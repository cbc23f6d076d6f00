#pragma once

// The communicator of ranks that have a GPU each. NCCL moves and sums the elements. A second group
// of the same ranks, the control group (lane_communicator.h), says which calls the ranks make and
// how the group ends:
//
//   Start --> control group: all ranks have started this call --> NCCL --> done
//
// The ranks agree on each call first, for which only the call's description and fingerprint travel.
// So NCCL never gets calls that differ between ranks, or a call that a lost rank has not made: NCCL
// itself would hang or give wrong numbers. To agree costs one call of the control group, of which
// many are under way at once. Root causes, timeouts and losses of ranks come from the control
// group. When the control group ends, or NCCL reports an error, NCCL's communicator is aborted on
// every rank and never used again, and all calls end with the cause.
//
// Elements go in pieces from the caller's memory, which is host memory, through staging memory to
// the GPU and back (nccl_device.h). Sums and products are in NCCL's order. All ranks get the same
// bits; another run gets the same bits if NCCL, the ranks, their GPUs and the sizes are the same.
// Results are otherwise those of every communicator (nccl_elements.h). The algorithm that a call
// asks for is ignored.
//
// Sequence numbers are those of the control group; its first kCallsToJoin calls join the ranks.

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
  LaneGroupOptions group;  // options of the control group
  int device = 0;          // CUDA's number of this rank's GPU; no two ranks have the same GPU
  absl::Duration join_timeout = absl::Seconds(60);
  // The time that work on the GPU has to end after an abort; normally it takes milliseconds. After
  // this time the calls end although the work has not, and the GPU keeps its staging memory.
  absl::Duration abort_wait = absl::Seconds(10);
  // The size, in bytes, of the pieces into which calls are cut. As long as it lives, the
  // communicator has 3 times 2 buffers of this size in pinned host memory, and as many on the GPU.
  size_t piece_bytes = size_t{8} << 20;
};

// One rank's end of a group over NCCL. Thread-safe.
class NcclCommunicator final : public Communicator {
 public:
  static constexpr uint64_t kCallsToJoin = 2;

  // Makes a communicator. The clock and the executor outlive the communicator and its calls; a
  // table that LoadNccl() returned lives forever. If `table` is an error, all ranks learn the
  // error. `joined` runs once, on the executor, when the ranks have joined NCCL or have failed to.
  // Errors: FAILED_PRECONDITION naming the ranks without GPU or NCCL and the reasons;
  // DEADLINE_EXCEEDED; UNAVAILABLE with NCCL's words; the cause for which the control group has
  // ended. After an error, every call ends with that error. Calls may be started before `joined`
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
  // The call whose pieces the communicator's thread is putting on the GPU.
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

  // The methods below run collective calls on the GPU.
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

  // The methods below join the ranks to one group of NCCL.
  absl::Status Join();
  NcclPass OwnPass();
  absl::Status AskControl(CollectiveCall call, std::shared_ptr<const void> memory);

  Clock& clock_;
  Executor& executor_;
  const absl::StatusOr<const NcclTable*> table_;
  const NcclOptions options_;
  // The flight record; thread-safe. Shared with its readers, which may outlive the group.
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
  bool failed_ = false;  // true after a failure on this rank, or after the end of the group
  absl::Time stall_logged_ = absl::InfinitePast();

  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace cohort
