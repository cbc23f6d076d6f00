#pragma once

// A pool of the memory in which payloads are assembled. Tensors keep the memory of their payload;
// when the last of these tensors is gone, the memory serves a later payload. New memory would cost
// a page fault for every 4 KiB, and the page faults take longer than copying the bytes.

#include <cstddef>
#include <list>
#include <memory>

#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A pool of buffers for received payloads. Thread-safe. Buffers in use keep the pool alive.
class ReceivePool : public std::enable_shared_from_this<ReceivePool> {
 public:
  static constexpr size_t kFreeBytesMax = size_t{256} << 20;

  // Returns a buffer of at least `bytes`. A buffer that is used again has at most about
  // twice as many bytes.
  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  Mutex mutex_;
  // Free buffers, the last used first.
  std::list<std::shared_ptr<Buffer>> free_ ABSL_GUARDED_BY(mutex_);
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
