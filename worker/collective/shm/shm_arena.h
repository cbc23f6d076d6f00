#pragma once

// The allocator of one rank's memory in the mapping that the ranks of a host share. Only the owning
// rank allocates in its arena, so the allocator keeps its book-keeping in memory of its own.
// Internal to worker/collective.

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {

// The arena of one rank, an allocator of whole pages by first fit. The pages of a freed buffer go
// back to the system. Thread-safe.
class ShmArena : public std::enable_shared_from_this<ShmArena> {
 public:
  ShmArena(std::shared_ptr<const ShmSegment> segment, int rank);

  // Allocates a buffer. Errors: RESOURCE_EXHAUSTED that names the size of the arena.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes);

  // Returns the offset of `memory` in the arena, or nothing if `memory` does not lie in the arena's
  // buffers. Empty memory counts as lying in the arena.
  absl::optional<size_t> OffsetOf(absl::Span<const std::byte> memory) const;

 private:
  class Lent;
  void Free(size_t offset, size_t bytes);

  // The memory of all ranks; shared with the group.
  const std::shared_ptr<const ShmSegment> segment_;
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  // The free ranges, as a map from offset to size in bytes; free ranges are never adjacent.
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
