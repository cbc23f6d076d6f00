#include "common/wire/frames/lent_memory.h"

#include <utility>

namespace cohort {

LentMemory::Known LentMemory::Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
                                   absl::FunctionRef<uint64_t()> new_id) {
  const auto known = ids_.find(memory.get());
  // Memory that is gone may have had the same address, so the address alone does not prove that the
  // memory is known.
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
    // The id of memory that still exists stays valid: the memory may be lent again.
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
    // Memory without owners was read and given back, so its reader is not lost.
    if (lent.owners.empty()) continue;
    if (const auto memory = lent.memory.lock()) memory->LoseReader();
    for (Owner& owner : lent.owners) owners.push_back(std::move(owner));
  }
  lent_.clear();
  ids_.clear();
  return owners;
}

}  // namespace cohort
