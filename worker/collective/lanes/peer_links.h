#pragma once

// The links of a rank to the others of its group: frames of operations, and messages about the
// group itself. Frames may arrive in any order; a frame that is not answered is still held
// somewhere.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/wire/message.h"
#include "common/wire/receive_place.h"

namespace cohort {

struct CollectiveFrame {
  int from = 0;
  uint64_t sequence = 0;     // the operation's
  uint64_t fingerprint = 0;  // that of the sender's call
  uint32_t tag = 0;          // number of the frame within the operation
  std::string call;          // the sender's call in words
  bool answer_may_wait = false;
  Payload payload;
};

// Why a generation ended. Of two causes the one that is less counts.
struct AbortCause {
  enum class Kind : uint8_t { kFound, kLost, kHeard };  // see collective.proto

  Kind kind = Kind::kFound;
  uint64_t sequence = 0;
  int reporter = 0;
  absl::Status status;

  bool operator<(const AbortCause& other) const;
};

// A rank's progress.
struct RankProgress {
  uint64_t calls_started = 0;
  std::string last_done;  // FlightRecorder::LastDone
};

using Consumed = absl::AnyInvocable<void(absl::Status)>;
using CauseReply = absl::AnyInvocable<void(absl::StatusOr<AbortCause>)>;
using LeftReply = absl::AnyInvocable<void(absl::StatusOr<uint64_t>)>;  // calls started
using ProgressReply = absl::AnyInvocable<void(absl::StatusOr<RankProgress>)>;

// The links of one rank. Completions run once each, on any thread, perhaps inside the call.
// Thread-safe.
class PeerLinks {
 public:
  virtual ~PeerLinks() = default;

  // Sends a frame. `consumed` says that the receiver has made use of the frame or never will; if
  // the answer may wait, the receiver gives it with those to a few frames that follow. The
  // payload's owners are released when nothing reads the memory any more, which may be before or
  // after.
  virtual void Send(int to, CollectiveFrame frame, Consumed consumed) = 0;
  // Gives up the frames under way: their memory is released soon.
  virtual void CancelFrames() = 0;

  // Answers with the receiver's cause, within `wait`.
  virtual void SendAbort(int to, const AbortCause& cause, absl::Duration wait,
                         CauseReply reply) = 0;
  // Fails when the rank is lost, answers when it leaves.
  virtual void Watch(int rank, LeftReply left) = 0;
  virtual void AskProgress(int rank, absl::Duration wait, ProgressReply reply) = 0;
};

// A rank's handler of what comes. Called on threads of the transport: does not block. A reply may
// be sent from any thread, once. Thread-safe.
class LaneReceiver {
 public:
  virtual ~LaneReceiver() = default;

  virtual void OnFrame(CollectiveFrame frame, Consumed consumed) = 0;
  // Returns where the payload of this frame, which has so many bytes and is not here yet, may be
  // received. Null: anywhere. The frame comes by OnFrame whether it was received there or not.
  virtual std::shared_ptr<ReceivePlace> PlaceOf(const CollectiveFrame&, size_t) { return nullptr; }
  virtual void OnAbort(AbortCause cause, CauseReply reply) = 0;
  virtual void OnWatch(LeftReply left) = 0;
  virtual void OnAskProgress(ProgressReply reply) = 0;
};

}  // namespace cohort
