#include "common/runtime/kernel/output_pool.h"

#include <utility>

namespace cohort {

std::shared_ptr<Buffer> OutputPool::Take(size_t bytes) {
  std::shared_ptr<Buffer> buffer;
  {
    MutexLock lock(mutex_);
    auto it = free_.find(bytes);
    if (it != free_.end() && !it->second.empty()) {
      buffer = std::move(it->second.back());
      it->second.pop_back();
    }
  }
  // The buffer is allocated outside the lock, because the allocator of a GPU's stream may call
  // DropFree, which takes the lock.
  if (buffer == nullptr) buffer = allocate_(bytes);
  Buffer* const data = buffer.get();
  // The deleter runs when the last reader drops the buffer. It calls Return, which takes the pool's
  // lock. So everything that the readers read comes before anything that the buffer's next user
  // writes.
  return std::shared_ptr<Buffer>(data, [pool = shared_from_this(), buffer = std::move(buffer)](
                                           Buffer*) mutable { pool->Return(std::move(buffer)); });
}

void OutputPool::DropFree() {
  // Holds the free buffers until the lock has been released: buffers are freed without the lock.
  std::map<size_t, std::vector<std::shared_ptr<Buffer>>> dropped;
  MutexLock lock(mutex_);
  dropped.swap(free_);
}

void OutputPool::Return(std::shared_ptr<Buffer> buffer) {
  // A buffer without usable memory, which an allocator returns when memory has run out, is not
  // reused.
  if (buffer->memory() != nullptr && !buffer->memory()->writable()) return;
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Buffer>>& free = free_[buffer->size()];
  // If the list of free buffers of this size is full, the returned buffer is freed.
  if (free.size() < max_free_per_size_) free.push_back(std::move(buffer));
}

}  // namespace cohort
