#pragma once

// The state of one rank in a group over lanes. Internal to worker/collective.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "worker/collective/lanes/abort_agreement.h"
#include "worker/collective/lanes/frame_places.h"
#include "worker/collective/lanes/lane_communicator.h"
#include "worker/collective/lanes/late_answers.h"
#include "worker/collective/lanes/operation.h"

namespace cohort {

// Always owned by a shared_ptr. Public methods are thread-safe; the rest lives on its strand.
class LaneGroup final : public LaneReceiver,
                        public OperationHost,
                        public std::enable_shared_from_this<LaneGroup> {
 public:
  LaneGroup(Clock& clock, Executor& executor, std::unique_ptr<PeerLinks> lanes,
            LaneGroupOptions options);

  const LaneGroupOptions& options() const { return options_; }
  const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }
  LaneCounters counters() const;

  void WatchAll();
  // The part of a call that travels: Start or Agree of lane_communicator.h.
  enum class Carries : uint8_t { kElements, kNothing };
  void Start(CollectiveCall call, Carries carries, Communicator::Done done);
  void Abort(absl::Status cause);
  void WhenAborted(Communicator::Done told);
  // Leaves the group; no call is under way. Peers that watch are told.
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
    std::shared_ptr<Operation> operation;  // null before it is begun; shared with its frames
  };
  // The part of a retired call that later frames of it are compared with.
  struct PastCall {
    uint64_t sequence = 0;
    uint64_t fingerprint = 0;
    std::string description;
    bool by_pairs = false;  // frames have fingerprints of their own
  };
  struct ParkedFrame {
    CollectiveFrame frame;
    Consumed consumed;
  };
  using Missing = std::vector<std::string>;

  // Aborts unless what is counted of calls and parked frames is what they say.
  void CheckInvariants() const;

  // Calls and frames: lane_group.cc.
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

  // The end of a generation: lane_group_abort.cc.
  void OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) override;
  void OnBadFrame(uint64_t sequence, const absl::Status& status) override;
  std::string NameOf(int rank) const;
  std::string Besides() const;
  void Found(uint64_t sequence, const absl::Status& status);
  void Lost(uint64_t sequence, int rank, const absl::Status& status);
  void PeerLeft(int rank, uint64_t calls_started);
  void CheckLeft(uint64_t sequence);
  void Raise(const AbortCause& cause);
  void StopAll();
  void TellAll();
  void Told(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer);
  void Settle();

  // Calls that take too long: lane_group_waits.cc.
  void SetTimer(CallState& state);
  void Late(uint64_t sequence);
  void SetStallTimer();
  void CheckStall();
  void AskWhoIsMissing(uint64_t sequence, absl::AnyInvocable<void(Missing)> then);

  Clock& clock_;
  Executor& executor_;
  const LaneGroupOptions options_;
  const std::unique_ptr<PeerLinks> lanes_;  // synchronise themselves
  // Synchronises itself. Shared with readers, also when the group is over.
  const std::shared_ptr<FlightRecorder> recorder_;
  FramePlaces places_;  // synchronises itself
  Strand strand_;

  // The strand's.
  uint64_t next_sequence_ = 0;
  uint64_t next_begin_ = 0;              // calls before it have been begun
  std::map<uint64_t, CallState> calls_;  // not retired
  size_t under_way_ = 0;                 // begun and not retired
  std::deque<PastCall> past_;
  std::map<uint64_t, std::vector<ParkedFrame>> parked_;  // frames of calls that are not begun
  size_t parked_frames_ = 0;
  LateAnswers answers_;
  std::vector<LeftReply> watchers_;
  bool left_ = false;
  std::map<int, uint64_t> left_peers_;  // rank, calls that it had started
  AbortAgreement agreement_;
  bool settled_ = false;
  absl::Status end_;  // set when settled
  std::vector<Communicator::Done> tell_of_end_;
  TimerId stall_timer_;

  mutable Mutex counters_mutex_;
  LaneCounters counters_ ABSL_GUARDED_BY(counters_mutex_);
};

}  // namespace cohort
