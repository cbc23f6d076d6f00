#pragma once

// Buffers for results that leave a runner. A fresh buffer of 0.8 MB costs 200 page faults, more
// than most kernels, so a buffer comes back here when its last reader drops it, on whatever thread
// that is, and serves a later run.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-safe. Buffers that are out keep the pool alive.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  static constexpr size_t kMaxFreePerSize = 4;

  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  Mutex mutex_;
  std::map<size_t, std::vector<std::shared_ptr<Buffer>>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
