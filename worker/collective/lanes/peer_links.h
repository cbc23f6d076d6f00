#pragma once

// The links of a rank to the other ranks of its group. Links carry frames of operations, and
// messages about the group itself. Frames may arrive in any order. A frame without an answer is
// still held by the transport or by the receiver.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/wire/message.h"
#include "common/wire/receive_memory.h"
#include "proto/collective.pb.h"

namespace cohort {

struct CollectiveFrame {
  int from = 0;
  uint64_t sequence = 0;     // the number of the sender's operation
  uint64_t fingerprint = 0;  // the fingerprint of the sender's call
  uint32_t tag = 0;          // the number of the frame within the operation
  std::string call;          // the sender's call as DescribeCall words it
  bool answer_may_wait = false;
  Payload payload;
};

// The cause for which a generation ended. If there are two causes, the lesser by (kind, sequence,
// reporter, message) counts.
struct AbortCause {
  enum class Kind : uint8_t {
    kFound,
    kLost,
    kHeard
  };  // in the order of preference, the best first (collective.proto)

  Kind kind = Kind::kFound;
  uint64_t sequence = 0;
  int reporter = 0;
  absl::Status status;

  bool operator<(const AbortCause& other) const;
};

// Converts the cause of an abort to the message in which it is sent.
proto::GroupAbortCause ToProto(const AbortCause& cause);
// Reads the cause of an abort from its message. A code that is not an error code becomes INTERNAL.
AbortCause FromProto(const proto::GroupAbortCause& message);

// How far a rank has come with its collective calls.
struct RankProgress {
  uint64_t calls_started = 0;
  std::string last_done;  // the last successful call, from FlightRecorder::LastDone
};

using Consumed = absl::AnyInvocable<void(absl::Status)>;
using CauseReply = absl::AnyInvocable<void(absl::StatusOr<AbortCause>)>;
// The reply to a watch: the number of calls that a rank had started when it left.
using LeftReply = absl::AnyInvocable<void(absl::StatusOr<uint64_t>)>;
using ProgressReply = absl::AnyInvocable<void(absl::StatusOr<RankProgress>)>;

// The links of one rank to its peers. Each callback runs once, on any thread, possibly inside the
// method that it was passed to. Thread-safe.
class PeerLinks {
 public:
  virtual ~PeerLinks() = default;

  // Sends a frame. `consumed` runs when the receiver has made use of the frame or never will. If
  // frame.answer_may_wait, the receiver may give this answer together with the answers to a few
  // later frames. The owners of the payload are released when nothing reads the memory any more,
  // which may be before or after `consumed`.
  virtual void Send(int to, CollectiveFrame frame, Consumed consumed) = 0;
  // Cancels the frames under way. The memory of their payloads is released soon.
  virtual void CancelFrames() = 0;

  // Sends the cause of an abort to rank `to`. `reply` runs within `wait`, with the cause that the
  // receiver knows or with an error.
  virtual void SendAbort(int to, const AbortCause& cause, absl::Duration wait,
                         CauseReply reply) = 0;
  // Watches a rank. `left` runs with an error when the rank is lost, and with a value when the rank
  // leaves.
  virtual void Watch(int rank, LeftReply left) = 0;
  virtual void AskProgress(int rank, absl::Duration wait, ProgressReply reply) = 0;
};

// The handler of the messages that reach a rank. Threads of the transport call the handler, so no
// method may block. A reply may be sent from any thread, once. Thread-safe.
class LaneReceiver {
 public:
  virtual ~LaneReceiver() = default;

  virtual void OnFrame(CollectiveFrame frame, Consumed consumed) = 0;
  // Returns the memory where the payload of a frame may be received; the payload has the given
  // number of bytes and has not arrived yet. Null means that any memory will do. OnFrame gets the
  // frame whether this memory was used or not.
  virtual std::shared_ptr<ReceivePlace> PlaceOf(const CollectiveFrame&, size_t) { return nullptr; }
  virtual void OnAbort(AbortCause cause, CauseReply reply) = 0;
  virtual void OnWatch(LeftReply left) = 0;
  virtual void OnAskProgress(ProgressReply reply) = 0;
};

}  // namespace cohort
