#pragma once

// The shared blocks in which one end of a local connection sends payloads. A block is taken for a
// payload, read by the other end, given back and used again, so a steady state makes none. Internal
// to common/wire.

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/wire/frames/shared_block.h"

namespace cohort {

// Thread-safe.
class BlockPool {
 public:
  struct Lent {
    uint64_t id = 0;  // counts from 1
    std::byte* data = nullptr;
    int fd = -1;  // that of a new block that the other end does not have yet; else -1
  };

  // Returns a block of at least `size` bytes with undefined content. Errors: RESOURCE_EXHAUSTED if
  // the system gives no memory.
  absl::StatusOr<Lent> Take(size_t size);

  // Returns a number for a block that does not belong to the pool.
  uint64_t NewId();

  // Notes that the other end has read the block. Returns false for an id that is not lent.
  bool GiveBack(uint64_t id);

  // Blocks that are gone since the last call, which the other end may forget. Too many free bytes
  // are not kept.
  std::vector<uint64_t> TakeDropped();

 private:
  void DropFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, SharedBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  std::list<uint64_t> free_ ABSL_GUARDED_BY(mutex_);  // the last used is first: it is in the cache
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> dropped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
