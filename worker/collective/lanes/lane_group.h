#pragma once

// The state of one rank in a group whose ranks send frames to each other. Internal to
// worker/collective.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/lanes/abort_agreement.h"
#include "worker/collective/lanes/frame_places.h"
#include "worker/collective/lanes/lane_group_options.h"
#include "worker/collective/lanes/late_answers.h"
#include "worker/collective/lanes/operation.h"

namespace cohort {

// One rank's part of a group: starts calls, receives frames, and agrees with the other ranks on the
// cause of an abort. Always owned by a shared_ptr. Public methods are thread-safe; everything else
// lives on the strand of the group.
class LaneGroup final : public LaneReceiver,
                        public OperationHost,
                        public std::enable_shared_from_this<LaneGroup> {
 public:
  LaneGroup(Clock& clock, Executor& executor, std::unique_ptr<PeerLinks> links,
            LaneGroupOptions options);

  const LaneGroupOptions& options() const { return options_; }
  const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }
  LaneCounters counters() const;

  void WatchAll();
  // kElements is a call that moves elements (LaneCommunicator::Start); kNothing is a call by which
  // ranks only compare what they call (LaneCommunicator::Agree).
  enum class Carries : uint8_t { kElements, kNothing };
  void Start(CollectiveCall call, Carries carries, Communicator::Done done);
  void Abort(absl::Status cause);
  void WhenAborted(Communicator::Done aborted);
  // Leaves the group, when no call is under way. The ranks that watch this rank are told.
  void Leave();

  void OnFrame(CollectiveFrame frame, Consumed consumed) override;
  std::shared_ptr<ReceivePlace> PlaceOf(const CollectiveFrame& frame, size_t bytes) override {
    return places_.Take(frame, bytes);
  }
  void OnAbort(AbortCause cause, CauseReply reply) override;
  void OnWatch(LeftReply left) override;
  void OnAskProgress(ProgressReply reply) override;

 private:
  friend class InvariantsAfter<LaneGroup>;
  struct CallState {
    uint64_t sequence = 0;
    CollectiveCall call;
    Carries carries = Carries::kElements;
    Communicator::Done done;
    absl::Time started;
    TimerId timer;
    // The operation of the call; null before the call is begun. Shared with the callbacks of its
    // frames.
    std::shared_ptr<Operation> operation;
  };
  // The part of a retired call that is kept, to compare its late frames with.
  struct PastCall {
    uint64_t sequence = 0;
    uint64_t fingerprint = 0;
    std::string description;
    bool by_pairs = false;  // true for an all-to-all, whose frames have different fingerprints
  };
  struct ParkedFrame {
    CollectiveFrame frame;
    Consumed consumed;
  };
  using Missing = std::vector<std::string>;

  // Crashes if the numbers of calls and parked frames do not match the tables.
  void CheckInvariants() const;

  // The methods below start calls and handle frames.
  void StartHere(CollectiveCall call, Carries carries, Communicator::Done done);
  void BeginNext();
  void Begin(CallState& state);
  void HandleFrame(CollectiveFrame frame, Consumed consumed);
  void HandleParked(uint64_t sequence);
  bool SameCall(const Operation& operation, const CollectiveFrame& frame);
  void ComparePast(const CollectiveFrame& frame);
  void OnDone(uint64_t sequence, const absl::Status& status) override;
  void Tell(Communicator::Done done, const absl::Status& status);
  void OnRetired(uint64_t sequence) override;

  // The methods below end the generation and agree on its cause.
  void OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) override;
  void OnBadFrame(uint64_t sequence, const absl::Status& status) override;
  std::string NameOf(int rank) const;
  std::string Besides() const;
  void Found(uint64_t sequence, const absl::Status& status);
  void Lost(uint64_t sequence, int rank, const absl::Status& status);
  RankLeft HowLeft() const;
  void PeerLeft(int rank, const RankLeft& how);
  void Hear(const AbortCause& cause);
  void CheckLeft(uint64_t sequence);
  void Raise(const AbortCause& cause);
  void StopAll();
  void TellAll();
  void Told(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer);
  void Settle();

  // The methods below find calls that take too long.
  void SetTimer(CallState& state);
  void Late(uint64_t sequence);
  void SetStallTimer();
  void CheckStall();
  void AskWhoIsMissing(uint64_t sequence, absl::AnyInvocable<void(Missing)> then);

  Clock& clock_;
  Executor& executor_;
  const LaneGroupOptions options_;
  const std::unique_ptr<PeerLinks> links_;  // the links to the other ranks; thread-safe
  // The flight record; thread-safe. Shared with its readers, which may outlive the group.
  const std::shared_ptr<FlightRecorder> recorder_;
  FramePlaces places_;  // places in callers' outputs for frames to come; thread-safe
  Strand strand_;

  // The members from here to stall_timer_ are used on the strand only.
  uint64_t next_sequence_ = 0;
  uint64_t next_begin_ = 0;  // sequence of the first call that has not been begun
  // The calls that have not retired (operation.h), by sequence.
  std::map<uint64_t, CallState> calls_;
  size_t under_way_ = 0;  // number of calls that have been begun and have not retired
  std::deque<PastCall> past_;
  // Frames of calls that this rank has not begun yet, by sequence of the call.
  std::map<uint64_t, std::vector<ParkedFrame>> parked_;
  size_t parked_frames_ = 0;
  LateAnswers answers_;
  std::vector<LeftReply> watchers_;
  bool left_ = false;
  // For each rank that has left the group: the number of calls that it had started before.
  std::map<int, uint64_t> left_peers_;
  AbortAgreement agreement_;
  bool settled_ = false;
  absl::Status end_;  // the cause of the abort; set when settled_ becomes true
  std::vector<Communicator::Done> tell_of_end_;
  TimerId stall_timer_;

  mutable Mutex counters_mutex_;
  LaneCounters counters_ ABSL_GUARDED_BY(counters_mutex_);
};

}  // namespace cohort
