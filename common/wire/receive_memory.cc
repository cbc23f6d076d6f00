#include "common/wire/receive_memory.h"

#include <utility>

namespace cohort {

std::shared_ptr<Buffer> ReceivePool::Take(size_t bytes) {
  std::shared_ptr<Buffer> buffer;
  {
    MutexLock lock(mutex_);
    for (auto i = free_.begin(); i != free_.end() && buffer == nullptr; ++i) {
      // A free buffer of more than about twice the payload's size would waste memory, so it is not
      // used.
      if ((*i)->size() < bytes || (*i)->size() / 2 > bytes) continue;
      buffer = std::move(*i);
      free_bytes_ -= buffer->size();
      free_.erase(i);
      break;
    }
  }
  if (buffer == nullptr) buffer = Buffer::Allocate(bytes);
  Buffer* const raw = buffer.get();
  // The tensors of a payload share the returned pointer. When the last of these tensors is gone,
  // the deleter returns the buffer to the pool.
  return std::shared_ptr<Buffer>(raw, [pool = shared_from_this(), buffer = std::move(buffer)](
                                          Buffer*) mutable { pool->Return(std::move(buffer)); });
}

void ReceivePool::Return(std::shared_ptr<Buffer> buffer) {
  std::list<std::shared_ptr<Buffer>> dropped;  // dropped buffers die after the lock is released
  MutexLock lock(mutex_);
  free_bytes_ += buffer->size();
  free_.push_front(std::move(buffer));
  // If the free buffers are over the pool's limit, those that were unused for the longest time are
  // dropped.
  while (free_bytes_ > kFreeBytesMax) {
    free_bytes_ -= free_.back()->size();
    dropped.splice(dropped.end(), free_, std::prev(free_.end()));
  }
}

}  // namespace cohort
