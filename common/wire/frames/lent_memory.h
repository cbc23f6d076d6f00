#pragma once

// The shared memory (shared_memory.h) that one end of a connection has sent from: the number under
// which the other end knows each piece, and its owner until the other end has read it. Internal to
// common/wire.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/wire/frames/shared_memory.h"

namespace cohort {

// Thread-compatible.
class LentMemory {
 public:
  using Owner = std::shared_ptr<const void>;

  struct Known {
    uint64_t id = 0;
    bool is_new = false;  // the other end has not seen it yet
  };
  // Keeps `owner`, which keeps the memory, until the number is given back. `new_id` returns a
  // number that nothing else on the connection has.
  Known Lend(const std::shared_ptr<const SharedMemory>& memory, Owner owner,
             absl::FunctionRef<uint64_t()> new_id);

  // Notes that the other end has read the memory once, and returns one owner for that. Returns null
  // for a number that is not lent.
  Owner GiveBack(uint64_t id);

  // Numbers of memory that is no more, which the other end may forget.
  std::vector<uint64_t> TakeGone();

  // Returns all owners once the other end is gone. The other end may still read, so lent memory is
  // never written again.
  std::vector<Owner> Lose();

 private:
  struct Lent {
    std::weak_ptr<const SharedMemory> memory;
    std::vector<Owner> owners;
  };
  std::map<uint64_t, Lent> lent_;
  std::map<const SharedMemory*, uint64_t> ids_;  // whose order is unused
};

}  // namespace cohort
