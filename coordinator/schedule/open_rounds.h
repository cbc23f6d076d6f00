#pragma once

// Synchronous closures. Those of a round read the same values, and each slice applies the mean of
// the first so many of them that it gets (ps_server/round_mean.h). So a closure that was answered
// is done only when so many are: a slice may have kept its push until then, and no checkpoint has
// what is kept. What is answered later was dropped by the slices, and is done. Rounds ascend with
// the closures' ids.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "coordinator/schedule/closure.h"

namespace cohort {

// Thread-compatible.
class OpenRounds {
 public:
  using Closures = std::vector<std::shared_ptr<Closure>>;

  // Whether slices have applied it, as far as is known.
  bool IsApplied(uint64_t round) const { return round <= applied_; }
  // Whether an earlier round than this one has answers that wait for more.
  bool HasOlder(uint64_t round) const;
  bool empty() const { return answered_.empty(); }

  // A closure of a round was answered. What is done with it, by ascending ids.
  Closures Answer(std::shared_ptr<Closure> closure);
  // What was answered and is not done; it is given up.
  Closures TakeAnswered();
  // A restore may take rounds back; slices say again which they have.
  void Forget() { applied_ = 0; }

 private:
  uint64_t applied_ = 0;
  std::map<ClosureId, std::shared_ptr<Closure>> answered_;  // of rounds behind `applied_`
};

}  // namespace cohort
