#include "worker/collective/shm/shm_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {
constexpr size_t kPageBytes = 4096;
}  // namespace

// The pages of one buffer, which are free again when the buffer is destroyed. Immutable;
// thread-safe.
class ShmArena::Lent final : public BufferMemory {
 public:
  Lent(std::shared_ptr<ShmArena> arena, size_t offset, size_t bytes)
      : arena_(std::move(arena)), offset_(offset), bytes_(bytes) {}
  ~Lent() override { arena_->Free(offset_, bytes_); }

 private:
  const std::shared_ptr<ShmArena> arena_;  // the arena of these pages; shared by all its buffers
  const size_t offset_;
  const size_t bytes_;
};

ShmArena::ShmArena(std::shared_ptr<const ShmSegment> segment, int rank)
    : segment_(std::move(segment)), memory_(segment_->arena(rank)) {
  free_[kOwnBytes] = memory_.size() - kOwnBytes;
}

absl::StatusOr<std::shared_ptr<Buffer>> ShmArena::Allocate(size_t bytes) {
  // An empty buffer takes a page as well, so that every buffer has an offset of its own.
  const size_t room = (std::max(bytes, size_t{1}) + kPageBytes - 1) / kPageBytes * kPageBytes;
  size_t offset = 0;
  {
    MutexLock lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [room](const auto& part) { return part.second >= room; });
    // `bytes` is compared with the arena's size, because its rounding to pages may have overflowed.
    if (found == free_.end() || bytes > memory_.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no ", bytes, " bytes are free in the ", memory_.size(),
                       " bytes that this rank shares with the others of its host"));
    }
    offset = found->first;
    const size_t rest = found->second - room;
    free_.erase(found);
    if (rest > 0) free_[offset + room] = rest;
  }
  const auto memory = memory_.subspan(offset, bytes);
  return Buffer::Of(std::make_shared<Lent>(shared_from_this(), offset, room), memory);
}

absl::optional<size_t> ShmArena::OffsetOf(absl::Span<const std::byte> memory) const {
  // Empty memory has no bytes, so any valid offset will do.
  if (memory.empty()) return kOwnBytes;
  // less_equal also compares addresses of different arrays, which <= does not allow.
  const std::less_equal<const std::byte*> before;
  const std::byte* const begin = memory_.data() + kOwnBytes;
  if (!before(begin, memory.data()) ||
      !before(memory.data() + memory.size(), memory_.data() + memory_.size())) {
    return absl::nullopt;
  }
  return static_cast<size_t>(memory.data() - memory_.data());
}

void ShmArena::Free(size_t offset, size_t bytes) {
  // The pages go back to the system. madvise() fails for pages that were detached
  // (ShmSegment::Detach), which are freed with the mapping.
  madvise(memory_.data() + offset, bytes, MADV_REMOVE);
  MutexLock lock(mutex_);
  // The range is joined with its free neighbours, so that free ranges are never adjacent.
  auto next = free_.upper_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace cohort
