#pragma once

// The sending side of a local connection. A payload above some KiB is copied into a block that both
// ends map, or, where one of them maps none, follows its frame on the socket without a copy. A
// large one travels in parts: through a ring of slots, which are blocks that come back as soon as
// their bytes were taken out, so that both ends copy at once; or on the socket, one part after
// another. Frames of other messages overtake the parts that are still to come. What lies in memory
// that the other end may map (shared_memory.h) is not copied at all, but lent, and read there.
// Internal to common/wire.

#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/block_pool.h"
#include "common/wire/frames/frame_prefix.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/lent_memory.h"
#include "common/wire/message.h"
#include "proto/local.pb.h"

namespace cohort {

// Thread-safe.
class LocalWriter {
 public:
  struct Options {
    IoLoop& loop;
    const IoLoop::Source& source;  // the socket's source in the loop
    const UniqueFd& socket;
    bool blocks = true;  // payloads may lie in blocks, of either end
    FrameSums sums = FrameSums::kNone;
    // a larger payload travels in parts where there are no blocks
    size_t whole_bytes_max = kPartBytes;
  };
  explicit LocalWriter(Options options) : options_(options) {}

  // Returns whether payloads that are not large lie in blocks of this end. False until the other
  // end was heard.
  bool uses_blocks() {
    MutexLock lock(mutex_);
    return UseBlocksLocked();
  }

  // Takes kind and header from `frame`. False when the connection has ended.
  bool Send(proto::LocalFrame frame, Payload payload);

  // Gives up a call that nobody waits for any more: after return, the payload of a frame that is
  // still on its way is not read. The other end gets what was copied of it. A payload that goes in
  // parts is still read.
  void Forget(uint64_t call);

  // Takes what a frame of the other end says about blocks. Returns false for what cannot be.
  bool TakeNotes(const proto::LocalFrame& frame);

  // Gives back a block of the other end that was read, with a later frame; with a part soon.
  void BlockRead(uint64_t block, size_t bytes);
  void PartRead(uint64_t block);

  // Notes that the socket has room.
  void Writable();

  // Returns when all was sent, or nothing can be any more, or at `end`. Not on the loop's thread.
  void WaitUntilSent(std::chrono::steady_clock::time_point end);

  // Sends nothing from now on.
  void Close();

 private:
  // A frame on its way to the socket.
  struct Unsent {
    std::string head;
    Payload following;
    size_t sent = 0;  // bytes of head and following together
    int passed_fd = -1;
    uint64_t call = 0;  // whose frame it is, if its payload follows it as a whole
  };
  // A message that goes in parts.
  struct InParts {
    proto::LocalFrame frame;
    Payload payload;
    size_t bytes = 0;
    size_t begun = 0;  // bytes that are in parts already
  };
  struct Part {
    proto::LocalFrame frame;
    Payload bytes;
    std::byte* slot = nullptr;  // null: the bytes follow the frame
    int new_fd = -1;
    Payload ended;  // the payload of the message whose last part this is
  };
  // Payloads to release without the lock, because that runs other code.
  using Sent = std::vector<Payload>;

  bool UseBlocksLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SumUp(const Payload& following, proto::LocalFrame& frame) const;
  bool SendInPlace(proto::LocalFrame frame, Payload payload);
  void LendLocked(const Payload& payload, proto::LocalFrame& frame, Sent& sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PutIntoBlock(const Payload& payload, size_t bytes, proto::LocalFrame& frame, int& new_fd);
  bool SendParts();
  bool NextPartLocked(Part& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WriteLocked(proto::LocalFrame& frame, Payload following, int passed_fd, Sent& sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FlushLocked(Sent& sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnBlocksLocked(Sent& sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  BlockPool pool_;

  Mutex mutex_;
  CondVar sent_;  // closed, or nothing is left to be sent
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;  // the other end was told of blocks
  bool peer_takes_blocks_ ABSL_GUARDED_BY(mutex_) = false;
  bool waits_for_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool sending_parts_ ABSL_GUARDED_BY(mutex_) = false;  // one thread at a time sends parts
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);
  std::deque<InParts> in_parts_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> slots_out_ ABSL_GUARDED_BY(mutex_);
  LentMemory lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ ABSL_GUARDED_BY(mutex_);
  size_t released_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t released_parts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
