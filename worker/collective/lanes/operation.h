#pragma once

// One operation of one rank under way: it carries out a plan as frames arrive. It ends in two
// steps. It is done when every step is made and nothing reads the caller's memory any more: the
// payload of a frame that points into that memory holds a count that goes when the transport
// releases it. A broadcast and a reduction are done when their receivers have answered, too: a rank
// that only gives learns so that theirs is the same call. It retires when the receivers of all its
// frames have answered; until then it counts among those under way, so that a rank runs ahead of
// its peers by a bounded number of operations.
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

// The receiver of an operation's news: its group. Lives on the strand of the group.
class OperationHost {
 public:
  virtual ~OperationHost() = default;
  // Outputs are there, or undefined; the caller's memory is free.
  virtual void OnDone(uint64_t sequence, const absl::Status& status) = 0;
  virtual void OnRetired(uint64_t sequence) = 0;
  // Tells that a frame to the rank was not taken.
  virtual void OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) = 0;
  // Tells that a frame does not bring what the plan expects.
  virtual void OnBadFrame(uint64_t sequence, const absl::Status& status) = 0;
};

// The parts that the operations of a group share. Belongs to their host.
struct OperationWays {
  Strand& strand;
  PeerLinks& lanes;
  FramePlaces& places;
};

struct OperationSetup {
  uint64_t sequence = 0;
  CollectiveCall call;
  std::string description;  // the call in words
  RankPlan plan;
  int rank = 0;
  int size = 1;
  // whether answers to its frames may wait until more have been sent
  bool answers_may_wait = false;
};

// Returns a frame's fingerprint: the call's and, for an all-to-all, how many elements go from one
// rank to the other.
uint64_t FrameFingerprint(const CollectiveCall& call, uint64_t fingerprint, int from, int to,
                          int rank);

// Always owned by a shared_ptr: frames under way hold it. Lives on the strand of the group.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  static constexpr int kFramesToPeerMax = 8;  // unanswered, of one operation

  // Makes an operation. The ways belong to the host, which outlives its operations: it owns them,
  // and the callbacks of their frames under way own it.
  Operation(const std::shared_ptr<OperationHost>& host, OperationWays ways, OperationSetup setup);

  void Begin();
  // Takes a frame with the right fingerprint and keeps it until its elements have been used: at
  // most what the plan receives. The sender may have the answer at once; only so do frames that
  // come in another order than they are used never wait for each other.
  void OnFrame(CollectiveFrame frame);
  // Sends and makes nothing more.
  void Stop();
  // Ends the call with `status` when its memory is free. Called after Stop.
  void Fail(const absl::Status& status);

  const CollectiveCall& call() const { return setup_.call; }
  const std::string& description() const { return setup_.description; }
  uint64_t fingerprint() const { return fingerprint_; }
  bool done() const { return done_; }
  bool retired() const { return done_ && frames_under_way_ == 0; }

  struct Counters {
    uint64_t frames_sent = 0;
    uint64_t bytes_sent = 0;  // bytes of payloads
    uint64_t frames_in_place = 0;
  };
  const Counters& counters() const { return counters_; }

  // Aborts unless what is counted of steps and frames is what they say.
  void CheckInvariants() const;

 private:
  class Hold;
  struct StepState {
    uint32_t waits_for = 0;  // refs that are not there yet
    uint32_t readers = 0;    // steps that have not read it yet
    bool made = false;
    const std::byte* place = nullptr;  // where a frame was offered to be received
    Payload payload;                   // for a receive
    std::shared_ptr<Buffer> memory;    // own memory of what is made; shared with frames
  };
  struct PeerQueue {
    std::deque<uint32_t> waiting;  // send steps
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
  // Returns a slice of the caller's memory, for as long as the owner lives.
  ByteSlice CallersMemory(const std::byte* data, size_t bytes);
  void Answered(int peer, uint32_t tag, const absl::Status& status);
  bool Matters(int peer, uint32_t tag, const absl::Status& failure) const;
  bool HasEnded() const;
  void CheckEnd();

  size_t ElementBytes(bool partial) const;
  std::byte* TargetOf(uint32_t index);
  int64_t WholeElements(const Ref& ref, int64_t first) const;
  // Returns the bytes of elements [first, first + count) of a ref.
  const std::byte* At(const Ref& ref, int64_t first, int64_t count, std::vector<std::byte>& spare);

  OperationHost& host_;
  const std::weak_ptr<OperationHost> life_of_host_;
  Strand& strand_;
  PeerLinks& lanes_;
  FramePlaces& places_;
  const OperationSetup setup_;
  const uint64_t fingerprint_;

  std::vector<StepState> states_;
  std::vector<uint32_t> dependents_begin_;  // indices into dependents_, by step
  std::vector<uint32_t> dependents_;
  absl::flat_hash_map<uint64_t, uint32_t> receives_;  // rank and tag to step
  std::deque<uint32_t> ready_;
  std::vector<PeerQueue> peers_;
  size_t steps_left_ = 0;
  std::weak_ptr<const Hold> hold_;  // shared by the frames that point into the caller's memory
  // Holds, and one for the steps until they have ended. Of any thread.
  std::atomic<int> memory_holds_{1};
  bool steps_ended_ = false;
  int frames_under_way_ = 0;
  int hellos_under_way_ = 0;  // hellos under way; their takers may leave before
  bool stopped_ = false;
  bool failed_ = false;
  bool done_ = false;
  absl::Status status_;
  Counters counters_;
};

}  // namespace cohort
