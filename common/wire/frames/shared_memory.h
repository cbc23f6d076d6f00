#pragma once

// Memory of tensors that other processes of this host may map. Values that are computed into this
// memory are sent without a copy: the other end reads them in place. The memory is written again
// only after every receiver has said that it has read the values. If a receiver is gone without
// saying so, the memory is never written again. Internal to common/wire: other code gets this
// memory from Transport::MemoryToSend.

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

// Limits of shared buffers. Smaller buffers come from the heap, since each shared buffer takes a
// descriptor and whole pages. Larger buffers come from the heap because no peer maps them, and so
// do buffers beyond kSharedBuffersMax in a process.
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
  // Records that a reader was lost. The lost reader may still read the memory, so the memory must
  // never be written again.
  void LoseReader() const { lost_.store(true, std::memory_order_release); }

 private:
  const SharedBlock block_;
  mutable std::atomic<bool> lost_{false};
};

// Returns an allocator of buffers in shared memory. The allocator uses the heap if the size is
// outside the limits or shared memory is not available. The allocator and its buffers share the
// count of shared buffers.
AllocateBuffer SharedMemoryMaker();

// Returns the shared memory of a slice that can be sent by lending, or null if the slice is better
// copied.
std::shared_ptr<const SharedMemory> SharedMemoryOf(const ByteSlice& slice);

// Returns the number of bytes that sending must copy: those of the slices outside shared memory, or
// all bytes if the payload has more than kRangesMax slices.
size_t BytesToCopy(const Payload& payload);

// LentMemory is the shared memory from which one end of a connection has sent. Each piece of memory
// has an id, under which the other end knows the piece, and an owner, which is kept until the other
// end has read the piece.

// The shared memory that one end of a connection has lent to the other end. Thread-compatible.
class LentMemory {
 public:
  using Owner = std::shared_ptr<const void>;

  struct Known {
    uint64_t id = 0;
    bool is_new = false;  // true if the other end has not mapped the memory yet
  };
  // Lends the memory and keeps `owner`, which keeps the memory alive, until the id is given back.
  // `new_id` returns an id that nothing else on the connection has.
  Known Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
             absl::FunctionRef<uint64_t()> new_id);

  // Takes back one loan of the memory that the other end has read, and returns the owner of that
  // loan. Returns null for an id that is not lent.
  Owner GiveBack(uint64_t id);

  // Returns the ids of memory that no longer exists, so that the other end unmaps it.
  std::vector<uint64_t> TakeGone();

  // Ends all loans once the other end is gone, and returns the owners. The other end may still be
  // reading, so lent memory is never written again.
  std::vector<Owner> Lose();

 private:
  struct Lent {
    std::weak_ptr<const SharedMemory> memory;
    std::vector<Owner> owners;
  };
  std::map<uint64_t, Lent> lent_;
  // Ids by memory; the order of the pointers is never used.
  std::map<const SharedMemory*, uint64_t> ids_;
};

}  // namespace cohort
