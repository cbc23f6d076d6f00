#pragma once

// The interface of whatever carries the frames of one connection: a socket, or a gRPC stream. The
// writer of the connection queues frames, and the bearer sends what it has room for. Internal to
// common/wire.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/message.h"

namespace cohort {

// A frame that waits for room in its bearer.
struct UnsentFrame {
  std::string head;
  Payload following;
  size_t sent = 0;  // number of bytes of head and following that were sent
  int passed_fd = -1;
  uint64_t call = 0;  // the id of the frame's call if the whole payload follows the frame, else 0
};

// Sends frames. Thread-safe, except where a method says otherwise.
class FrameBearer {
 public:
  virtual ~FrameBearer() = default;

  // Sends the first frames of `frames`, as far as there is room, and removes those that were sent
  // whole. Their payloads are moved to `sent`, because releasing a payload runs other code. The
  // writer holds its lock. Returns whether the writer must call StartSending after it has released
  // the lock. Errors: UNAVAILABLE if the other end is gone.
  virtual absl::StatusOr<bool> SendFrames(std::deque<UnsentFrame>& frames,
                                          std::vector<Payload>& sent) = 0;
  // Starts to send what SendFrames has taken. Runs once after each SendFrames that returned true.
  virtual void StartSending() {}

  // Says whether frames wait for room. While frames wait, the bearer calls LocalWriter::Writable
  // when it has room. The writer holds its lock.
  virtual void WaitForRoom(bool waits) = 0;

  // Returns whether the bearer still reads the memory of a call's payload that SendFrames has
  // taken.
  virtual bool Holds(uint64_t) { return false; }
};

}  // namespace cohort
