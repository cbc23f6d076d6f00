#include "common/wire/frames/block_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {

namespace {

// The bytes of free blocks that a pool keeps; the pool unmaps free blocks beyond this.
constexpr size_t kFreeBytesMax = size_t{256} << 20;

// A block of more than kWasteMax times the payload's size is left for larger payloads.
constexpr size_t kWasteMax = 4;

}  // namespace

absl::StatusOr<BlockPool::Lent> BlockPool::Take(size_t size) {
  MutexLock lock(mutex_);
  for (auto i = free_.begin(); i != free_.end(); ++i) {
    const Mapping& memory = blocks_.at(*i).memory;
    if (memory.size() < size || memory.size() / kWasteMax > size) continue;
    const Lent lent{*i, memory.data(), -1};
    free_bytes_ -= memory.size();
    free_.erase(i);
    return lent;
  }
  // No free block fits, so a new block is made, whose descriptor the other end needs.
  ASSIGN_OR_RETURN(SharedBlock block, MakeSharedBlock(size));
  const Lent lent{++last_id_, block.memory.data(), block.fd.get()};
  blocks_.emplace(lent.id, std::move(block));
  return lent;
}

uint64_t BlockPool::NewId() {
  MutexLock lock(mutex_);
  return ++last_id_;
}

bool BlockPool::GiveBack(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(id);
  // The peer names the id, so the id may be wrong: never lent, or given back twice.
  if (found == blocks_.end() || std::find(free_.begin(), free_.end(), id) != free_.end()) {
    return false;
  }
  free_.push_front(id);
  free_bytes_ += found->second.memory.size();
  DropFree();
  return true;
}

void BlockPool::DropFree() {
  // One free block stays even over the limit, so that a large payload does not map anew each time.
  while (free_bytes_ > kFreeBytesMax && free_.size() > 1) {
    const auto oldest = blocks_.find(free_.back());
    free_bytes_ -= oldest->second.memory.size();
    dropped_.push_back(oldest->first);
    blocks_.erase(oldest);
    free_.pop_back();
  }
}

std::vector<uint64_t> BlockPool::TakeDropped() {
  MutexLock lock(mutex_);
  return std::exchange(dropped_, {});
}

}  // namespace cohort
