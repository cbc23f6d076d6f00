#pragma once

// FrameBearer is the interface of the object that carries the frames of one connection: a socket,
// or a gRPC stream. The connection's writer queues frames, and the bearer sends as many of them as
// it has room for. Internal to common/wire.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/message.h"

namespace cohort {

// A frame that waits until its bearer, the connection that carries frames, has room.
struct UnsentFrame {
  std::string head;
  Payload following;
  size_t sent = 0;  // number of bytes of `head` and `following` that were sent
  int passed_fd = -1;
  // The id of the frame's call if the frame is a call whose whole payload follows it, else 0.
  uint64_t call = 0;
};

// Carries the frames of one connection. Thread-safe, except where a method says otherwise.
class FrameBearer {
 public:
  virtual ~FrameBearer() = default;

  // Sends the first frames of `frames`, as many as the bearer has room for, and removes the frames
  // that were sent whole. The payloads of removed frames are moved to `sent`, because releasing a
  // payload runs other code and the writer holds its lock during the call. Returns whether the
  // writer must call StartSending after it has released the lock. Errors: UNAVAILABLE if the other
  // end is gone.
  virtual absl::StatusOr<bool> SendFrames(std::deque<UnsentFrame>& frames,
                                          std::vector<Payload>& sent) = 0;
  // Starts to send the frames that SendFrames has taken. Runs once after each SendFrames that
  // returned true.
  virtual void StartSending() {}

  // Tells the bearer whether frames wait. While frames wait, the bearer calls LocalWriter::Writable
  // when it has room. The writer holds its lock during the call.
  virtual void WaitForRoom(bool waits) = 0;

  // Returns whether the bearer still reads the memory of the payload of a call with the given id. A
  // bearer may read a payload after SendFrames has taken its frame.
  virtual bool Holds(uint64_t) { return false; }
};

}  // namespace cohort
