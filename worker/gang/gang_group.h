#pragma once

// The group of workers that run one generation of gangs together, as one worker sees it: this
// worker's rank, and its communicator. Sums take their memory from the group, because the
// communicator moves its own memory fastest; the memory is used again in later sums.

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/runtime/kernel/output_pool.h"
#include "worker/collective/communicator.h"

namespace cohort {

// One worker's end of a group. Shared by the closures of the generation and by collective calls
// that are under way. Thread-safe.
class GangGroup {
 public:
  // Takes a communicator. The communicator is destroyed on `executor`, which outlives the
  // communicator: the last reference may be dropped inside the Done of a call, where a communicator
  // must not be destroyed (communicator.h).
  GangGroup(std::unique_ptr<Communicator> communicator, Executor& executor);

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  Communicator& communicator() const { return *communicator_; }
  std::shared_ptr<Buffer> Take(size_t bytes) { return memory_->Take(bytes); }
  // Runs a task on the executor; for work that takes too long for the Done of a collective call.
  void RunElsewhere(Task task) { executor_.Run(std::move(task)); }

 private:
  Executor& executor_;
  // The communicator of this worker; a shared_ptr, because the memory pool refers to it weakly.
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<OutputPool> memory_;  // lends the communicator's memory; grows on demand
};

}  // namespace cohort
