#pragma once

// The shared memory (shared_memory.h) from which one end of a connection has sent. Each piece of
// memory has an id, under which the other end knows the piece, and an owner, which is kept until
// the other end has read the piece. Internal to common/wire.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/wire/frames/shared_memory.h"

namespace cohort {

// The shared memory that one end of a connection has lent to the other end. Thread-compatible.
class LentMemory {
 public:
  using Owner = std::shared_ptr<const void>;

  struct Known {
    uint64_t id = 0;
    bool is_new = false;  // true if the other end has not mapped the memory yet
  };
  // Lends the memory and keeps `owner`, which keeps the memory alive, until the id is given back.
  // `new_id` returns an id that nothing else on the connection has.
  Known Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
             absl::FunctionRef<uint64_t()> new_id);

  // Takes back one loan of the memory that the other end has read, and returns the owner of that
  // loan. Returns null for an id that is not lent.
  Owner GiveBack(uint64_t id);

  // Returns the ids of memory that no longer exists, so that the other end unmaps it.
  std::vector<uint64_t> TakeGone();

  // Ends all loans once the other end is gone, and returns the owners. The other end may still be
  // reading, so lent memory is never written again.
  std::vector<Owner> Lose();

 private:
  struct Lent {
    std::weak_ptr<const SharedMemory> memory;
    std::vector<Owner> owners;
  };
  std::map<uint64_t, Lent> lent_;
  std::map<const SharedMemory*, uint64_t> ids_;  // ordered by pointer, an order that is never used
};

}  // namespace cohort
