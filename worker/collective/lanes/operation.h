#pragma once

// One operation of one rank under way. The operation carries out a plan as frames arrive, and ends
// in two steps.
//
// The operation is done when every step is made and nothing reads the caller's memory any more. A
// payload that points into the caller's memory keeps a count (Hold), which ends when the transport
// releases the frame. A broadcast or a reduction is done only when the receivers of its frames have
// answered, too: a rank that only sends elements learns from the answers that its receivers made
// the same call.
//
// The operation retires when the receivers of all its frames have answered. Until then it counts
// among the operations under way, so that a rank runs ahead of its peers by a bounded number of
// operations.
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

// The object to which an operation reports, which is the operation's group. Lives on the strand of
// the group.
class OperationHost {
 public:
  virtual ~OperationHost() = default;
  // Tells that the operation is done. The outputs are complete, or undefined if `status` is an
  // error; the caller's memory is free.
  virtual void OnDone(uint64_t sequence, const absl::Status& status) = 0;
  virtual void OnRetired(uint64_t sequence) = 0;
  // Tells that rank `rank` did not accept a frame of the operation, with the error.
  virtual void OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) = 0;
  // Tells that a received frame does not have the content that the plan expects.
  virtual void OnBadFrame(uint64_t sequence, const absl::Status& status) = 0;
};

// The objects that all operations of a group share. The group owns them.
struct OperationWays {
  Strand& strand;
  PeerLinks& lanes;
  FramePlaces& places;
};

struct OperationSetup {
  uint64_t sequence = 0;
  CollectiveCall call;
  std::string description;  // the text that DescribeCall returns for the call
  RankPlan plan;
  int rank = 0;
  int size = 1;
  // True if receivers may delay the answers to the operation's frames and send several answers
  // together.
  bool answers_may_wait = false;
};

// Returns the fingerprint of a frame: the fingerprint of the call and, for an all-to-all, also the
// number of elements that rank `from` sends to rank `to`. `call` is the call of `rank`.
uint64_t FrameFingerprint(const CollectiveCall& call, uint64_t fingerprint, int from, int to,
                          int rank);

// One operation under way. Always owned by a shared_ptr, which frames under way share. Lives on the
// strand of the group.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  // Upper bound of the unanswered frames of one operation to one peer.
  static constexpr int kFramesToPeerMax = 8;

  // Makes an operation of `host`. The host owns `ways` and outlives the operation: the host owns
  // its operations, and the callbacks of frames under way share ownership of the host.
  Operation(const std::shared_ptr<OperationHost>& host, OperationWays ways, OperationSetup setup);

  void Begin();
  // Handles a received frame whose fingerprint matches, and keeps the frame until its elements have
  // been used. The kept frames are at most the frames that the plan receives. The sender may get
  // its answer at once: if answers waited for the use of the elements, frames that arrive out of
  // order could wait for each other for ever.
  void OnFrame(CollectiveFrame frame);
  // Stops the operation: no further frame is sent and no further step is made.
  void Stop();
  // Ends the call with the error `status` as soon as nothing reads the caller's memory. Must follow
  // Stop.
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

  // Aborts the process if the counts of steps and frames do not match the tables.
  void CheckInvariants() const;

 private:
  class Hold;
  struct StepState {
    uint32_t waits_for = 0;  // number of the step's inputs that are not available yet
    uint32_t readers = 0;    // the number of steps that have not read the step's result yet
    bool made = false;
    // The place in the caller's output that was offered for the frame of a receive step.
    const std::byte* place = nullptr;
    Payload payload;  // the received frame, for a receive step
    // The operation's memory for the result of the step; shared with frames.
    std::shared_ptr<Buffer> memory;
  };
  struct PeerQueue {
    // The send steps that wait because kFramesToPeerMax frames to the peer are unanswered.
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
  // Returns a ByteSlice of the caller's memory. The operation is not done while an owner of this
  // ByteSlice lives.
  ByteSlice CallersMemory(const std::byte* data, size_t bytes);
  void Answered(int peer, uint32_t tag, const absl::Status& status);
  bool Matters(int peer, uint32_t tag, const absl::Status& failure) const;
  bool HasEnded() const;
  void CheckEnd();

  size_t ElementBytes(bool partial) const;
  std::byte* TargetOf(uint32_t index);
  int64_t WholeElements(const Ref& ref, int64_t first) const;
  // Returns the address of elements [first, first + count) of a Ref. Elements that lie in several
  // pieces of a frame's payload are copied to `spare`.
  const std::byte* At(const Ref& ref, int64_t first, int64_t count, std::vector<std::byte>& spare);

  OperationHost& host_;
  const std::weak_ptr<OperationHost> life_of_host_;
  Strand& strand_;
  PeerLinks& lanes_;
  FramePlaces& places_;
  const OperationSetup setup_;
  const uint64_t fingerprint_;

  std::vector<StepState> states_;
  // Where the dependents of each step of the plan begin in dependents_.
  std::vector<uint32_t> dependents_begin_;
  std::vector<uint32_t> dependents_;
  // The receive steps, by the key of sending rank and tag.
  absl::flat_hash_map<uint64_t, uint32_t> receives_;
  std::deque<uint32_t> ready_;
  std::vector<PeerQueue> peers_;
  size_t steps_left_ = 0;
  // The Hold that all frames which point into the caller's memory share.
  std::weak_ptr<const Hold> hold_;
  // The number of live Holds, plus one until the steps have ended. Any thread may change this
  // counter.
  std::atomic<int> memory_holds_{1};
  bool steps_ended_ = false;
  int frames_under_way_ = 0;
  // The number of hello frames under way. A receiver may leave before it answers a hello frame.
  int hellos_under_way_ = 0;
  bool stopped_ = false;
  bool failed_ = false;
  bool done_ = false;
  absl::Status status_;
  Counters counters_;
};

}  // namespace cohort
