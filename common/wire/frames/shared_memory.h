#pragma once

// Memory of tensors that processes of this host may map: values computed into it are sent without a
// copy, and read by the other end in place. It is written again only when every receiver has said
// that it has read them; if a receiver is gone without a word, never. Internal to common/wire:
// others get it from Transport::MemoryToSend.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "common/tensor/tensor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/frames/shared_block.h"
#include "common/wire/message.h"

namespace cohort {

// Smaller buffers are the heap's, since each shared one takes a descriptor and whole pages; so are
// larger ones, which no peer maps, and those above this many in a process.
inline constexpr size_t kSharedBufferBytesMin = size_t{64} << 10;
inline constexpr size_t kSharedBufferBytesMax = kMessageBytesMax;
inline constexpr int kSharedBuffersMax = 256;

// Thread-safe.
class SharedMemory final : public BufferMemory {
 public:
  explicit SharedMemory(SharedBlock block) : block_(std::move(block)) {}

  int fd() const { return block_.fd.get(); }
  std::byte* data() const { return block_.memory.data(); }
  size_t size() const { return block_.memory.size(); }

  bool writable() const override { return !lost_.load(std::memory_order_acquire); }
  // Notes that a reader was lost: it may still read.
  void LoseReader() const { lost_.store(true, std::memory_order_release); }

 private:
  const SharedBlock block_;
  mutable std::atomic<bool> lost_{false};
};

// Makes such buffers, and others of the heap where it cannot or they are small. What makes and what
// it made share the count of them.
AllocateBuffer SharedMemoryMaker();

// Returns the memory of a slice that is sent, to be read in place, or null if the slice is better
// copied.
std::shared_ptr<const SharedMemory> SharedMemoryOf(const ByteSlice& slice);

// Bytes of the slices without such memory; all bytes where the slices are too many to name.
size_t BytesToCopy(const Payload& payload);

}  // namespace cohort
