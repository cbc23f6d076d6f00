#pragma once

// A pool of buffers for the outputs of runs, and for all values of programs whose shapes change
// from run to run. A fresh buffer of 0.8 MB costs 200 page faults, which is more than most kernels
// cost. So a buffer returns to its pool when its last reader drops it, on any thread, and serves a
// later run.

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A pool of free buffers, grouped by size. Thread-safe. Buffers in use keep the pool alive.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  static constexpr size_t kMaxFreePerSize = 4;

  explicit OutputPool(AllocateBuffer allocate = Buffer::Allocate,
                      size_t max_free_per_size = kMaxFreePerSize)
      : allocate_(std::move(allocate)), max_free_per_size_(max_free_per_size) {}

  std::shared_ptr<Buffer> Take(size_t bytes);
  // Frees all buffers that are not in use.
  void DropFree();

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  const AllocateBuffer allocate_;
  const size_t max_free_per_size_;
  Mutex mutex_;
  std::map<size_t, std::vector<std::shared_ptr<Buffer>>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
