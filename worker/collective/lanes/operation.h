#pragma once

// One operation of one rank while it is under way. The operation carries out a plan as frames
// arrive, and ends in two steps.
//
// The operation is done when every step of the plan is made and nothing reads the caller's memory
// any more. A frame that points into the caller's memory keeps a count (Hold), which ends when the
// transport releases the frame. A broadcast or a reduce is done only when the receivers of its
// frames have answered as well: a rank that only sends elements learns from the answers that its
// receivers made the same call.
//
// The operation retires when the receivers of all its frames have answered. Until then it counts as
// under way, so that a rank is only a bounded number of operations ahead of the others.
//
//   under way --every step made--> draining --memory released--> done --frames answered--> retired
//       \--Stop--> stopped (nothing more is sent or made) --Fail, memory released--> done

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/strand.h"
#include "worker/collective/communicator.h"
#include "worker/collective/lanes/frame_places.h"
#include "worker/collective/lanes/peer_links.h"
#include "worker/collective/plan/plan.h"

namespace cohort {

// The object to which an operation reports: its group. Lives on the strand of the group.
class OperationHost {
 public:
  virtual ~OperationHost() = default;
  // Tells that the operation is done. The outputs are complete, or undefined if `status` is an
  // error; the caller may use its memory again.
  virtual void OnDone(uint64_t sequence, const absl::Status& status) = 0;
  virtual void OnRetired(uint64_t sequence) = 0;
  // Tells that rank `rank` did not accept a frame of the operation; `status` is its error.
  virtual void OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) = 0;
  // Tells that a received frame does not have the tag or the size that the plan expects.
  virtual void OnBadFrame(uint64_t sequence, const absl::Status& status) = 0;
};

// The objects that all operations of a group share; the group owns them.
struct OperationWays {
  Strand& strand;
  PeerLinks& links;
  FramePlaces& places;
};

struct OperationSetup {
  uint64_t sequence = 0;
  CollectiveCall call;
  std::string description;  // the call in the words of DescribeCall()
  RankPlan plan;
  int rank = 0;
  int size = 1;
  // True if receivers may hold back the answers to the operation's frames (late_answers.h).
  bool answers_may_wait = false;
};

// Returns the fingerprint of a frame from rank `from` to rank `to`: that of the call, mixed for an
// all-to-all with the number of elements that `from` sends to `to`. `call` is the call of rank
// `rank`, which is one of the two, and `fingerprint` its fingerprint.
uint64_t FrameFingerprint(const CollectiveCall& call, uint64_t fingerprint, int from, int to,
                          int rank);

// One operation under way. Always owned by a shared_ptr, which the callbacks of its frames hold.
// Lives on the strand of the group.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  // Upper bound on the number of unanswered frames of one operation to one rank.
  static constexpr int kFramesToPeerMax = 8;

  // Makes an operation of `host`, which owns `ways` and outlives the operation: the host owns its
  // operations, and the callbacks of frames also hold the host.
  Operation(const std::shared_ptr<OperationHost>& host, OperationWays ways, OperationSetup setup);

  // The four methods below may end the operation, and the host then forgets it. So the caller must
  // share the ownership of the operation during the call.
  void Begin();
  // Handles a received frame whose fingerprint fits, and keeps the frame until its elements have
  // been used. At most as many frames are kept as the plan receives. The sender may be answered at
  // once: if answers waited for the use of the elements, frames that arrive out of order could wait
  // for each other forever.
  void OnFrame(CollectiveFrame frame);
  // Stops the operation: it sends no further frame and makes no further step.
  void Stop();
  // Ends the call with the error `status` as soon as nothing reads the caller's memory. Called
  // after Stop().
  void Fail(const absl::Status& status);

  const CollectiveCall& call() const { return setup_.call; }
  const std::string& description() const { return setup_.description; }
  uint64_t fingerprint() const { return fingerprint_; }
  bool done() const { return done_; }
  bool retired() const { return done_ && frames_under_way_ == 0; }

  struct Counters {
    uint64_t frames_sent = 0;
    uint64_t bytes_sent = 0;  // bytes of payload in the frames sent
    uint64_t frames_in_place = 0;
  };
  const Counters& counters() const { return counters_; }

  // Crashes if the numbers of steps and frames do not match the tables.
  void CheckInvariants() const;

 private:
  class Hold;
  struct StepState {
    uint32_t waits_for = 0;  // number of results that the step still waits for
    uint32_t readers = 0;    // number of steps that still have to read this step's result
    bool made = false;
    // For a receive step: the place in the caller's output that was offered for the frame.
    const std::byte* place = nullptr;
    Payload payload;  // for a receive step: the received frame
    // The operation's memory for the result of the step; shared with frames that are sent from it.
    std::shared_ptr<Buffer> memory;
  };
  struct PeerQueue {
    // The send steps that wait because kFramesToPeerMax frames to this rank are unanswered.
    std::deque<uint32_t> waiting;
    int under_way = 0;
  };

  void LinkSteps();
  void OfferPlaces();
  void RunReady();
  void RunStep(uint32_t index);
  void Combine(const PlanStep& step, std::byte* target);
  void Copy(const PlanStep& step, std::byte* target);
  void Made(uint32_t index);
  void DropReader(const Ref& ref);
  void Pump(int peer);
  void SendHello();
  void SendFrame(int peer, uint32_t tag, Payload payload);
  Payload PayloadOf(uint32_t index);
  // Returns a range of the caller's memory for a frame. The operation is not done while an owner of
  // the result lives.
  ByteSlice CallersMemory(const std::byte* data, size_t bytes);
  void Answered(int peer, uint32_t tag, const absl::Status& status);
  bool Matters(int peer, uint32_t tag, const absl::Status& failure) const;
  bool HasEnded() const;
  void CheckEnd();

  size_t ElementBytes(bool partial) const;
  std::byte* TargetOf(uint32_t index);
  int64_t WholeElements(const Ref& ref, int64_t first) const;
  // Returns the address of the elements [first, first + count) of a Ref (plan.h). Elements that lie
  // in several pieces of a frame's payload are copied to `spare`.
  const std::byte* At(const Ref& ref, int64_t first, int64_t count, std::vector<std::byte>& spare);

  OperationHost& host_;
  const std::weak_ptr<OperationHost> life_of_host_;
  Strand& strand_;
  PeerLinks& links_;
  FramePlaces& places_;
  const OperationSetup setup_;
  const uint64_t fingerprint_;

  std::vector<StepState> states_;
  // For each step of the plan: the begin of its dependents, the steps that wait for it, in
  // dependents_.
  std::vector<uint32_t> dependents_begin_;
  std::vector<uint32_t> dependents_;
  // The receive steps, by the sending rank and the tag of their frames.
  absl::flat_hash_map<uint64_t, uint32_t> receives_;
  std::deque<uint32_t> ready_;
  std::vector<PeerQueue> peers_;
  size_t steps_left_ = 0;
  // The Hold of all frames that point into the caller's memory and are under way.
  std::weak_ptr<const Hold> hold_;
  // The number of living Holds, plus 1 until the steps have ended. Changed by any thread.
  std::atomic<int> memory_holds_{1};
  bool steps_ended_ = false;
  int frames_under_way_ = 0;
  // The number of unanswered hello frames. Their receivers may leave without an answer.
  int hellos_under_way_ = 0;
  bool stopped_ = false;
  bool failed_ = false;
  bool done_ = false;
  absl::Status status_;
  Counters counters_;
};

}  // namespace cohort
