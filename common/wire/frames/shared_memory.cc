#include "common/wire/frames/shared_memory.h"

#include <utility>

namespace cohort {

AllocateBuffer SharedMemoryMaker() {
  auto made = std::make_shared<std::atomic<int>>(0);
  return [made = std::move(made)](size_t bytes) {
    if (bytes < kSharedBufferBytesMin || bytes > kSharedBufferBytesMax) {
      return Buffer::Allocate(bytes);
    }
    // The buffer is counted before it is made, so that concurrent allocations keep the limit.
    if (made->fetch_add(1) >= kSharedBuffersMax) {
      made->fetch_sub(1);
      return Buffer::Allocate(bytes);
    }
    absl::StatusOr<SharedBlock> block = MakeSharedBlock(bytes);
    // Without shared memory, the heap serves as well: such values are copied when they are sent.
    if (!block.ok()) {
      made->fetch_sub(1);
      return Buffer::Allocate(bytes);
    }
    // When the memory is freed, another shared buffer may be made.
    std::shared_ptr<const SharedMemory> memory(new SharedMemory(*std::move(block)),
                                               [made](const SharedMemory* gone) {
                                                 delete gone;
                                                 made->fetch_sub(1);
                                               });
    std::byte* const data = memory->data();
    return Buffer::Of(std::move(memory), absl::MakeSpan(data, bytes));
  };
}

std::shared_ptr<const SharedMemory> SharedMemoryOf(const ByteSlice& slice) {
  if (slice.memory == nullptr || slice.size < kLentBytesMin) return nullptr;
  return std::dynamic_pointer_cast<const SharedMemory>(slice.memory);
}

size_t BytesToCopy(const Payload& payload) {
  if (payload.size() > kRangesMax) return PayloadBytes(payload);
  size_t bytes = 0;
  for (const ByteSlice& slice : payload) {
    if (SharedMemoryOf(slice) == nullptr) bytes += slice.size;
  }
  return bytes;
}

}  // namespace cohort
