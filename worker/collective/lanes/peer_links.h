#pragma once

// The links (lanes) from one rank to the other ranks of its group. They carry frames of operations,
// and messages about the group itself. Frames may arrive in any order. A frame that has not been
// answered is still with the transport or with its receiver.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/wire/message.h"
#include "common/wire/receive_memory.h"
#include "proto/collective.pb.h"

namespace cohort {

struct CollectiveFrame {
  int from = 0;
  uint64_t sequence = 0;     // sequence of the sender's operation
  uint64_t fingerprint = 0;  // fingerprint of the sender's call, see FrameFingerprint()
  uint32_t tag = 0;          // tag, which names the frame in its operation
  std::string call;          // the sender's call in the words of DescribeCall()
  bool answer_may_wait = false;
  Payload payload;
};

// The cause for which a generation ended. Of two causes the lesser counts, by (kind, sequence,
// reporter, message).
struct AbortCause {
  // The kinds of causes in the order of preference, the best first (collective.proto).
  enum class Kind : uint8_t { kFound, kLost, kHeard };

  Kind kind = Kind::kFound;
  uint64_t sequence = 0;
  int reporter = 0;
  absl::Status status;

  bool operator<(const AbortCause& other) const;
};

// Converts a cause to the message in which it travels.
proto::GroupAbortCause ToProto(const AbortCause& cause);
// Reads a cause from its message. A code that is not an error code becomes INTERNAL.
AbortCause FromProto(const proto::GroupAbortCause& message);

// The progress of a rank: how many calls it has started, and its last success.
struct RankProgress {
  uint64_t calls_started = 0;
  std::string last_done;  // last call that succeeded, from FlightRecorder::LastDone()
};

// The way a rank left its group.
struct RankLeft {
  uint64_t calls_started = 0;       // calls that the rank had started
  std::optional<AbortCause> cause;  // set if the group was aborted before
};

using Consumed = absl::AnyInvocable<void(absl::Status)>;
using CauseReply = absl::AnyInvocable<void(absl::StatusOr<AbortCause>)>;
// Gets how a watched rank left, or an error if it is lost.
using LeftReply = absl::AnyInvocable<void(absl::StatusOr<RankLeft>)>;
using ProgressReply = absl::AnyInvocable<void(absl::StatusOr<RankProgress>)>;

// The links from one rank to all others. Each callback runs once, on any thread, possibly inside
// the method to which it was passed. Thread-safe.
class PeerLinks {
 public:
  virtual ~PeerLinks() = default;

  // Sends a frame. `consumed` runs when the receiver has accepted the frame, or has refused it, or
  // cannot be reached. If frame.answer_may_wait, the receiver may hold the answer back until a few
  // later frames have come. The owners of the payload are released when nothing reads the memory
  // any more, which may be before or after `consumed`.
  virtual void Send(int to, CollectiveFrame frame, Consumed consumed) = 0;
  // Cancels all frames under way; the memory of their payloads is released soon.
  virtual void CancelFrames() = 0;

  // Sends the cause of an abort to rank `to`. `reply` runs within `wait`, with the cause that the
  // other rank knows or with an error.
  virtual void SendAbort(int to, const AbortCause& cause, absl::Duration wait,
                         CauseReply reply) = 0;
  // Watches a rank. `left` runs with a value when the rank leaves the group, and with an error when
  // it is lost.
  virtual void Watch(int rank, LeftReply left) = 0;
  virtual void AskProgress(int rank, absl::Duration wait, ProgressReply reply) = 0;
};

// The handler of the messages that reach a rank. Threads of the transport call it, so no method may
// block. Each reply is called once, on any thread. Thread-safe.
class LaneReceiver {
 public:
  virtual ~LaneReceiver() = default;

  virtual void OnFrame(CollectiveFrame frame, Consumed consumed) = 0;
  // Returns memory in which the payload of a frame may be received, before its bytes (their number
  // is the second argument) have arrived; null if any memory will do. OnFrame() gets the frame in
  // either case.
  virtual std::shared_ptr<ReceivePlace> PlaceOf(const CollectiveFrame&, size_t) { return nullptr; }
  virtual void OnAbort(AbortCause cause, CauseReply reply) = 0;
  virtual void OnWatch(LeftReply left) = 0;
  virtual void OnAskProgress(ProgressReply reply) = 0;
};

}  // namespace cohort
