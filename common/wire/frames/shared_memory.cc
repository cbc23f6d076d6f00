#include "common/wire/frames/shared_memory.h"

#include <utility>

#include "common/base/log.h"

namespace cohort {

AllocateBuffer SharedMemoryMaker() {
  auto made = std::make_shared<std::atomic<int>>(0);
  auto logged = std::make_shared<std::atomic<bool>>(false);
  return [made = std::move(made), logged = std::move(logged)](size_t bytes) {
    if (bytes < kSharedBufferBytesMin || bytes > kSharedBufferBytesMax) {
      return Buffer::Allocate(bytes);
    }
    // The buffer is counted before it is made, so that concurrent allocations cannot exceed the
    // limit.
    if (made->fetch_add(1) >= kSharedBuffersMax) {
      made->fetch_sub(1);
      return Buffer::Allocate(bytes);
    }
    absl::StatusOr<SharedBlock> block = MakeSharedBlock(bytes);
    // If the system gives no shared memory, the buffer comes from the heap, and its values are
    // copied when they are sent.
    if (!block.ok()) {
      made->fetch_sub(1);
      if (!logged->exchange(true)) {
        Log(LogLevel::kWarning, "no_shared_block", {{"error", block.status().message()}});
      }
      return Buffer::Allocate(bytes);
    }
    // The deleter lowers the count of shared buffers when the memory is freed.
    std::shared_ptr<const SharedMemory> memory(new SharedMemory(*std::move(block)),
                                               [made](const SharedMemory* gone) {
                                                 delete gone;
                                                 made->fetch_sub(1);
                                               });
    std::byte* const data = memory->data();
    return Buffer::Of(std::move(memory), absl::MakeSpan(data, bytes));
  };
}

std::shared_ptr<const SharedMemory> SharedMemoryOf(const ByteSlice& slice) {
  if (slice.memory == nullptr || slice.size < kLentBytesMin) return nullptr;
  return std::dynamic_pointer_cast<const SharedMemory>(slice.memory);
}

size_t BytesToCopy(const Payload& payload) {
  if (payload.size() > kRangesMax) return PayloadBytes(payload);
  size_t bytes = 0;
  for (const ByteSlice& slice : payload) {
    if (SharedMemoryOf(slice) == nullptr) bytes += slice.size;
  }
  return bytes;
}

LentMemory::Known LentMemory::Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
                                   absl::FunctionRef<uint64_t()> new_id) {
  const auto known = ids_.find(memory.get());
  // The ids are found by the memory's address. A freed memory may have had the same address, so the
  // address alone does not prove that the other end has mapped this memory.
  const bool is_new = known == ids_.end() || lent_.at(known->second).memory.lock() != memory;
  const uint64_t id = is_new ? new_id() : known->second;
  if (is_new) {
    ids_[memory.get()] = id;
    lent_[id].memory = memory;
  }
  lent_[id].owners.push_back(std::move(owner));
  return {id, is_new};
}

LentMemory::Owner LentMemory::GiveBack(uint64_t id) {
  const auto found = lent_.find(id);
  if (found == lent_.end() || found->second.owners.empty()) return nullptr;
  Owner owner = std::move(found->second.owners.back());
  found->second.owners.pop_back();
  return owner;
}

std::vector<uint64_t> LentMemory::TakeGone() {
  std::vector<uint64_t> gone;
  for (auto i = lent_.begin(); i != lent_.end();) {
    // Memory that still exists keeps its id, because it may be lent again.
    if (!i->second.memory.expired()) {
      ++i;
      continue;
    }
    gone.push_back(i->first);
    i = lent_.erase(i);
  }
  for (auto i = ids_.begin(); i != ids_.end();) {
    i = lent_.count(i->second) > 0 ? std::next(i) : ids_.erase(i);
  }
  return gone;
}

std::vector<LentMemory::Owner> LentMemory::Lose() {
  std::vector<Owner> owners;
  for (auto& [id, lent] : lent_) {
    // Memory without owners is not on loan, because the other end has given it back.
    if (lent.owners.empty()) continue;
    if (const auto memory = lent.memory.lock()) memory->LoseReader();
    for (Owner& owner : lent.owners) owners.push_back(std::move(owner));
  }
  lent_.clear();
  ids_.clear();
  return owners;
}

}  // namespace cohort
