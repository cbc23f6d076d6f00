#pragma once

// Buffers for results that leave a runner, and for all values where shapes change from run to run.
// A fresh buffer of 0.8 MB costs 200 page faults, more than most kernels, so a buffer comes back
// here when its last reader drops it, on whatever thread that is, and serves a later run.

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-safe. Buffers that are out keep the pool alive.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  static constexpr size_t kMaxFreePerSize = 4;

  explicit OutputPool(AllocateBuffer allocate = Buffer::Allocate,
                      size_t max_free_per_size = kMaxFreePerSize)
      : allocate_(std::move(allocate)), max_free_per_size_(max_free_per_size) {}

  std::shared_ptr<Buffer> Take(size_t bytes);
  // Ends the buffers that wait for another use.
  void DropFree();

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  const AllocateBuffer allocate_;
  const size_t max_free_per_size_;
  Mutex mutex_;
  std::map<size_t, std::vector<std::shared_ptr<Buffer>>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
