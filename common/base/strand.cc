#include "common/base/strand.h"

#include <deque>
#include <utility>

#include "common/base/mutex.h"

namespace cohort {

namespace {
// A drain gives the thread back after this many tasks, so that one busy strand cannot starve the
// others.
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

// The task that the executor runs. If the executor drops it instead, at the end of a simulated
// world, the queued tasks are dropped too: a task that owns its strand would otherwise keep the
// strand, and itself, for ever.
class Strand::State::Turn {
 public:
  explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    while (state_ != nullptr) {
      std::deque<Task> dropped;  // declared before the lock, so destroyed after it
      MutexLock lock(state_->mutex);
      dropped.swap(state_->queue);
      if (!dropped.empty()) continue;  // their end may post another
      state_->draining = false;
      break;
    }
  }

  void operator()() { Drain(std::exchange(state_, nullptr)); }

 private:
  std::shared_ptr<State> state_;  // shared with the strand; none once it has run
};

Strand::Strand(Executor& executor) : state_(std::make_shared<State>(executor)) {}

void Strand::Post(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    state_->draining = true;
  }
  state_->executor.Run(State::Turn(state_));
}

void Strand::RunOrPost(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    state_->draining = true;
  }
  Drain(std::shared_ptr<State>(state_));  // a task may end the strand
}

bool Strand::IsCurrent() const { return current_strand == state_.get(); }

void Strand::Drain(const std::shared_ptr<State>& state) {
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
    task();
  }
  current_strand = outer;
  state->executor.Run(State::Turn(state));
}

}  // namespace cohort
