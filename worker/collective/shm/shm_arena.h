#pragma once

// The allocator of one rank's memory in the mapping that the ranks of a host share. Only the owning
// rank allocates in its arena, so the allocator's own tables are in ordinary memory. Internal to
// worker/collective.

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {

// The arena of one rank: lends whole pages, from the first free range that is large enough. The
// pages of a freed buffer go back to the system. Thread-safe.
class ShmArena : public std::enable_shared_from_this<ShmArena> {
 public:
  ShmArena(std::shared_ptr<const ShmSegment> segment, int rank);

  // Allocates a buffer. Errors: RESOURCE_EXHAUSTED naming `bytes` and the size of the arena.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes);

  // Returns the offset of `memory` in the arena, or nothing if it lies elsewhere. Empty memory
  // counts as lying in the arena.
  absl::optional<size_t> OffsetOf(absl::Span<const std::byte> memory) const;

 private:
  class Lent;
  void Free(size_t offset, size_t bytes);

  // The memory of all ranks; shared with the barrier and with buffers.
  const std::shared_ptr<const ShmSegment> segment_;
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  // The free ranges: their sizes in bytes, by offset. Free ranges are never adjacent.
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
