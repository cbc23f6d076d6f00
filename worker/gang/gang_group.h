#pragma once

// The workers that run a generation of gangs together, as one worker sees them: its rank, and the
// communicator with the other workers. Sums take their memory from the group, because the
// communicator moves that memory fastest and the memory is reused.

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/runtime/kernel/output_pool.h"
#include "worker/collective/communicator.h"

namespace cohort {

// One worker's end of a group. Shared by the closures of the generation and by their collective
// calls under way. Thread-safe.
class GangGroup {
 public:
  // Wraps a communicator. The communicator is destroyed on the executor, which must outlive it,
  // because the last reference may be dropped inside a call's Done, where the communicator must not
  // die (communicator.h).
  GangGroup(std::unique_ptr<Communicator> communicator, Executor& executor);

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  Communicator& communicator() const { return *communicator_; }
  std::shared_ptr<Buffer> Take(size_t bytes) { return memory_->Take(bytes); }
  // Runs work on the executor that takes too long for the Done of a collective call.
  void RunElsewhere(Task task) { executor_.Run(std::move(task)); }

 private:
  Executor& executor_;
  // The group's communicator; a shared_ptr, because the pool refers to the communicator weakly.
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<OutputPool> memory_;  // pool of the communicator's memory; grows on demand
};

}  // namespace cohort
