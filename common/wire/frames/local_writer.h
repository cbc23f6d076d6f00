#pragma once

// The sending side of a connection of frames. How a payload travels depends on its size and on the
// connection:
//
// - A payload of at most some KiB travels inside its frame.
//
// - A larger payload is copied into a shared block, which both ends map. If an end maps no blocks,
// the payload follows its frame without a copy.
//
// - A large payload travels in parts. With shared blocks, the parts travel through a ring of slots:
// a slot is a block that comes back as soon as its bytes were copied out, so both ends copy at the
// same time. Without shared blocks, the parts follow one another. Frames of other messages overtake
// the parts that are still to come.
//
// - Bytes in memory that the other end may map (shared_memory.h) are not copied: they are lent, and
// the other end reads them in place.
//
// Internal to common/wire.

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/frame_bearer.h"
#include "common/wire/frames/frame_prefix.h"
#include "common/wire/frames/shared_block.h"
#include "common/wire/frames/shared_memory.h"
#include "common/wire/message.h"
#include "common/wire/moved_bytes.h"
#include "proto/local.pb.h"

namespace cohort {

// Sends the frames of one connection. Thread-safe.
class LocalWriter {
 public:
  struct Options {
    FrameBearer& bearer;
    bool blocks = true;  // whether payloads of either end may lie in shared blocks
    FrameSums sums = FrameSums::kNone;
    // The largest payload that is sent whole on a connection without shared blocks. A larger
    // payload travels in parts.
    size_t whole_bytes_max = kPartBytes;
    // The count of bytes that move in shared blocks; the bearer counts all others. May be null.
    std::shared_ptr<MovedBytes> moved = nullptr;
  };
  explicit LocalWriter(Options options) : options_(std::move(options)) {}

  // Returns whether this end sends payloads in shared blocks. False until the other end has said
  // that it maps blocks.
  bool uses_blocks() {
    MutexLock lock(mutex_);
    return UseBlocksLocked();
  }

  // Sends a message: the kind and header of `frame`, and `payload`. Returns false if the connection
  // has ended.
  bool Send(proto::LocalFrame frame, Payload payload);

  // Forgets a call whose caller no longer waits. Afterwards the writer no longer reads the memory
  // of the call's request: a payload that is still unsent is sent from a copy. (A payload that
  // travels in parts is still read.) Returns false if the bearer cannot stop reading that memory.
  // In this case the connection must end.
  [[nodiscard]] bool Forget(uint64_t call);

  // Handles what a frame of the other end says about blocks, for example which blocks the other end
  // has read. Returns false if the frame gives back a block that is not lent.
  bool TakeNotes(const proto::LocalFrame& frame);

  // Gives a block of the other end back with a later frame, because this end has read it. PartRead
  // does the same for a block that held a part of a payload, and sends the later frame sooner.
  void BlockRead(uint64_t block, size_t bytes);
  void PartRead(uint64_t block);

  // Goes on sending. The bearer calls this method when it has room.
  void Writable();

  // Blocks until everything was sent, until nothing can be sent any more, or until `end`. Must not
  // run on the loop's thread.
  void WaitUntilSent(std::chrono::steady_clock::time_point end);

  // Stops sending for good; unsent frames are dropped.
  void Close();

 private:
  // A message whose payload travels in parts.
  struct InParts {
    proto::LocalFrame frame;
    Payload payload;
    size_t bytes = 0;
    size_t begun = 0;  // number of bytes put into parts so far
  };
  struct Part {
    proto::LocalFrame frame;
    Payload bytes;
    std::byte* slot = nullptr;  // memory of the part's slot; null: the bytes follow the frame
    int new_fd = -1;
    Payload ended;         // the whole payload, to be released after its last part
    absl::Status no_slot;  // why the part got no slot of shared memory, or ok
  };
  // Work that the destructor does once the lock is released: the bearer starts to send the frames
  // that it has taken, and payloads that were sent are released. Either may run code that takes the
  // lock.
  struct Sent {
    ~Sent() {
      if (bearer != nullptr) bearer->StartSending();
    }
    std::vector<Payload> payloads;
    // The bearer on which StartSending must be called; null if there is nothing to start.
    FrameBearer* bearer = nullptr;
  };

  bool UseBlocksLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SumUp(const Payload& following, proto::LocalFrame& frame) const;
  bool SendInPlace(proto::LocalFrame frame, Payload payload);
  void LendLocked(const Payload& payload, proto::LocalFrame& frame, Sent& sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PutIntoBlock(const Payload& payload, size_t bytes, proto::LocalFrame& frame, int& new_fd);
  void LogNoSharedBlock(const absl::Status& cause);
  bool SendParts();
  bool NextPartLocked(Part& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WriteLocked(proto::LocalFrame& frame, Payload following, int passed_fd, Sent& sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FlushLocked(Sent& sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnBlocksLocked(Sent& sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  BlockPool pool_;
  std::atomic<bool> logged_no_block_{false};

  Mutex mutex_;
  CondVar sent_;  // signalled when the writer is closed or has nothing left to send
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // True once the first frame was sent. The first frame tells whether this end maps blocks.
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  bool peer_takes_blocks_ ABSL_GUARDED_BY(mutex_) = false;
  bool waits_for_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool sending_parts_ ABSL_GUARDED_BY(mutex_) = false;  // whether a thread is sending parts now
  std::deque<UnsentFrame> unsent_ ABSL_GUARDED_BY(mutex_);
  std::deque<InParts> in_parts_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> slots_out_ ABSL_GUARDED_BY(mutex_);
  LentMemory lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ ABSL_GUARDED_BY(mutex_);
  size_t released_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t released_parts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
