#pragma once

// The memory of one rank in the mapping that the ranks of a host share, as buffers. Only this rank
// allocates here, so its book-keeping is in its own memory. Internal to worker/collective.

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {

// First fit over whole pages; the pages of a freed buffer go back to the system. Thread-safe.
class ShmArena : public std::enable_shared_from_this<ShmArena> {
 public:
  ShmArena(std::shared_ptr<const ShmSegment> segment, int rank);

  // Errors: RESOURCE_EXHAUSTED naming the arena's size.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes);

  // Returns where `memory` lies in the arena's buffers, or nothing. Empty memory lies everywhere.
  absl::optional<size_t> OffsetOf(absl::Span<const std::byte> memory) const;

 private:
  class Lent;
  void Free(size_t offset, size_t bytes);

  const std::shared_ptr<const ShmSegment> segment_;  // shared with the group
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);  // offset to bytes; never neighbours
};

}  // namespace cohort
