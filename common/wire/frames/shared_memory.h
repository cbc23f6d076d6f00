#pragma once

// Memory of tensors that other processes of this host may map. Values that are computed into this
// memory are sent without a copy: the other end reads the values in place. The memory is written
// again only after every receiver has said that it has read the values. If a receiver is gone
// without saying so, the memory is never written again. Internal to common/wire: other code gets
// this memory from Transport::MemoryToSend.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/tensor/tensor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/shared_block.h"
#include "common/wire/message.h"

namespace cohort {

// Limits of shared buffers; all other buffers come from the heap. A smaller buffer is not shared,
// because a shared buffer takes a descriptor and whole pages. A larger buffer is not shared,
// because no peer maps it. A process has at most kSharedBuffersMax shared buffers.
inline constexpr size_t kSharedBufferBytesMin = size_t{64} << 10;
inline constexpr size_t kSharedBufferBytesMax = kMessageBytesMax;
inline constexpr int kSharedBuffersMax = 256;

// The memory of one shared buffer. Thread-safe.
class SharedMemory final : public BufferMemory {
 public:
  explicit SharedMemory(SharedBlock block) : block_(std::move(block)) {}

  int fd() const { return block_.fd.get(); }
  std::byte* data() const { return block_.memory.data(); }
  size_t size() const { return block_.memory.size(); }

  bool writable() const override { return !lost_.load(std::memory_order_acquire); }
  // Records that a reader is gone without giving the memory back. It may still read the memory, so
  // the memory must never be written again.
  void LoseReader() const { lost_.store(true, std::memory_order_release); }

 private:
  const SharedBlock block_;
  mutable std::atomic<bool> lost_{false};
};

// Returns an allocator of buffers in shared memory. The allocator takes memory from the heap if the
// buffer is outside the limits above or if the system gives no shared memory, which is logged once.
// The allocator and its buffers share a count of the buffers.
AllocateBuffer SharedMemoryMaker();

// Returns the shared memory in which a slice lies, or null if the slice is not in shared memory or
// is so small that copying it is faster than lending it.
std::shared_ptr<const SharedMemory> SharedMemoryOf(const ByteSlice& slice);

// Returns the number of bytes of a payload that sending must copy: the bytes of the slices that
// cannot be lent, or all bytes if the payload has more than kRangesMax slices.
size_t BytesToCopy(const Payload& payload);

// LentMemory keeps track of the shared memory that one end of a connection has lent to the other
// end. Each SharedMemory that was lent has an id, by which the frames name it. Each loan has an
// owner, which is kept until the other end has read the memory.

// The shared memory that one end of a connection has lent to the other end. Thread-compatible.
class LentMemory {
 public:
  using Owner = std::shared_ptr<const void>;

  struct Known {
    uint64_t id = 0;
    bool is_new = false;  // true if the other end has not mapped the memory yet
  };
  // Lends `memory`, and keeps `owner`, which keeps the memory alive, until the loan is given back.
  // `new_id` returns an id that nothing else on the connection has.
  Known Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
             absl::FunctionRef<uint64_t()> new_id);

  // Ends one loan of the memory with the given id, because the other end has read it. Returns the
  // owner of the loan, or null if no memory with this id is lent.
  Owner GiveBack(uint64_t id);

  // Returns the ids of memory that no longer exists, so that the other end unmaps that memory.
  std::vector<uint64_t> TakeGone();

  // Ends all loans, because the other end is gone, and returns the owners of the loans. The other
  // end may still read the lent memory, so this memory is never written again.
  std::vector<Owner> Lose();

 private:
  struct Lent {
    std::weak_ptr<const SharedMemory> memory;
    std::vector<Owner> owners;
  };
  std::map<uint64_t, Lent> lent_;
  // The ids of lent memory. The order of the pointers is never used.
  std::map<const SharedMemory*, uint64_t> ids_;
};

}  // namespace cohort
