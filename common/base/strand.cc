#include "common/base/strand.h"

#include <deque>
#include <utility>

#include "common/base/mutex.h"

namespace cohort {

namespace {
// A drain of a strand gives its thread back after this number of tasks, so that one busy strand
// cannot starve other strands.
constexpr int kTasksPerDrainMax = 64;
thread_local const void* current_strand = nullptr;
}  // namespace

struct Strand::State {
  class Turn;
  explicit State(Executor& executor_in) : executor(executor_in) {}
  Executor& executor;
  Mutex mutex;
  std::deque<Task> queue ABSL_GUARDED_BY(mutex);
  bool draining ABSL_GUARDED_BY(mutex) = false;
};

// The task that drains a strand on the executor. If the executor drops this task instead, at the
// end of a simulated world, the strand's queued tasks are dropped too. Otherwise a queued task that
// owns its strand would keep the strand, and itself, alive for ever.
class Strand::State::Turn {
 public:
  explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    while (state_ != nullptr) {
      // Declared before the lock, so that the tasks are destroyed after the unlock.
      std::deque<Task> dropped;
      MutexLock lock(state_->mutex);
      dropped.swap(state_->queue);
      if (!dropped.empty()) continue;  // destroying the dropped tasks may post new tasks
      state_->draining = false;
      break;
    }
  }

  void operator()() { Drain(std::exchange(state_, nullptr)); }

 private:
  std::shared_ptr<State> state_;  // shared with the strand; null once the turn has run
};

Strand::Strand(Executor& executor) : state_(std::make_shared<State>(executor)) {}

void Strand::Post(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    // The caller that sets `draining` is the only caller that starts a drain until the queue is
    // empty.
    state_->draining = true;
  }
  // Called outside the lock: the executor may drop the turn, and the turn's destructor locks.
  state_->executor.Run(State::Turn(state_));
}

void Strand::RunOrPost(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    state_->draining = true;
  }
  // The pointer is copied, because a task may destroy the strand.
  Drain(std::shared_ptr<State>(state_));
}

bool Strand::IsCurrent() const { return current_strand == state_.get(); }

void Strand::Drain(const std::shared_ptr<State>& state) {
  // RunOrPost may drain this strand inside a task of another strand, which is current again
  // afterwards.
  const void* const outer = std::exchange(current_strand, state.get());
  for (int i = 0; i < kTasksPerDrainMax; ++i) {
    Task task;
    {
      MutexLock lock(state->mutex);
      if (state->queue.empty()) {
        state->draining = false;
        current_strand = outer;
        return;
      }
      task = std::move(state->queue.front());
      state->queue.pop_front();
    }
    // The task runs outside the lock, so that it may post to its own strand.
    task();
  }
  current_strand = outer;
  // Tasks may be left in the queue, and `draining` is still true, so a new turn runs the rest.
  state->executor.Run(State::Turn(state));
}

}  // namespace cohort
