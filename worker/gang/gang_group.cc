#include "worker/gang/gang_group.h"

#include <utility>

namespace cohort {

namespace {

// Returns the communicator as a shared_ptr. When its last reference is dropped, the executor
// destroys the communicator.
std::shared_ptr<Communicator> DyingOn(Executor& executor,
                                      std::unique_ptr<Communicator> communicator) {
  return std::shared_ptr<Communicator>(communicator.release(), [&executor](Communicator* last) {
    executor.Run([last = std::unique_ptr<Communicator>(last)] {});
  });
}

// Returns a pool of the communicator's memory. The pool refers to the communicator weakly, because
// its buffers may outlive the communicator.
std::shared_ptr<OutputPool> MemoryOf(const std::shared_ptr<Communicator>& communicator) {
  return std::make_shared<OutputPool>([weak = std::weak_ptr(communicator)](size_t bytes) {
    if (const auto alive = weak.lock()) {
      // If the communicator's memory is used up, ordinary memory serves: slower, but valid in
      // calls.
      if (auto buffer = alive->Allocate(bytes); buffer.ok()) return *std::move(buffer);
    }
    return Buffer::Allocate(bytes);
  });
}

}  // namespace

GangGroup::GangGroup(std::unique_ptr<Communicator> communicator, Executor& executor)
    : executor_(executor),
      communicator_(DyingOn(executor, std::move(communicator))),
      memory_(MemoryOf(communicator_)) {}

}  // namespace cohort
