#pragma once

// The workers that run a generation of gangs together, as one of them sees it: its rank, and the
// communicator with the others. Sums take their memory here, so that it is memory that the
// communicator moves fastest, and is used again.

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/runtime/kernel/output_pool.h"
#include "worker/collective/communicator.h"

namespace cohort {

// Thread-safe. Shared by the closures of the generation, and by what they have under way.
class GangGroup {
 public:
  // Wraps a communicator, which dies on the executor, which outlives it: the last reference may be
  // dropped in a place where it must not die (communicator.h).
  GangGroup(std::unique_ptr<Communicator> communicator, Executor& executor);

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  Communicator& communicator() const { return *communicator_; }
  std::shared_ptr<Buffer> Take(size_t bytes) { return memory_->Take(bytes); }
  // Runs work that takes too long for the place where a call of the communicator is told to be
  // done.
  void RunElsewhere(Task task) { executor_.Run(std::move(task)); }

 private:
  Executor& executor_;
  const std::shared_ptr<Communicator> communicator_;  // shared with the pool, weakly
  const std::shared_ptr<OutputPool> memory_;          // grows as it is asked
};

}  // namespace cohort
