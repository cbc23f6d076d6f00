#pragma once

// The memory that payloads are put together in. Tensors keep it, and when the last one is gone it
// serves a later payload: new memory costs a page fault for every 4 KiB, which takes longer than
// the bytes do.

#include <cstddef>
#include <list>
#include <memory>

#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-safe. Buffers that are out keep the pool alive.
class ReceivePool : public std::enable_shared_from_this<ReceivePool> {
 public:
  static constexpr size_t kFreeBytesMax = size_t{256} << 20;

  // Returns a buffer of at least `bytes`; a buffer that was used before has at most twice as many.
  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  Mutex mutex_;
  std::list<std::shared_ptr<Buffer>> free_ ABSL_GUARDED_BY(mutex_);  // the last used is first
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
