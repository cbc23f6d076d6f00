#include "common/base/strand.h"

#include <deque>
#include <utility>

#include "common/base/mutex.h"

namespace cohort {

namespace {
// The number of tasks after which a strand gives its thread back to the executor, so that a busy
// strand cannot starve other strands.
constexpr int kTasksPerDrainMax = 64;
}  // namespace

struct Strand::State {
  class Turn;
  explicit State(Executor& executor_in) : executor(executor_in) {}
  Executor& executor;
  Mutex mutex;
  std::deque<Task> queue ABSL_GUARDED_BY(mutex);
  bool draining ABSL_GUARDED_BY(mutex) = false;
};

// The task with which an executor runs a strand's queued tasks. An executor may also destroy a Turn
// without running it, when a simulation ends. The strand's queued tasks are destroyed with the
// Turn; otherwise a queued task that owns its strand would keep the strand, and itself, alive for
// ever.
class Strand::State::Turn {
 public:
  explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    while (state_ != nullptr) {
      // The tasks are destroyed after the mutex is unlocked, so `dropped` is declared before the
      // lock.
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
  // The state of the strand, shared with the strand; null once this Turn has run.
  std::shared_ptr<State> state_;
};

Strand::Strand(Executor& executor) : state_(std::make_shared<State>(executor)) {}

void Strand::Post(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    // The caller that sets `draining` hands the strand to the executor. Later callers only queue
    // their tasks, until the queue is empty.
    state_->draining = true;
  }
  // Executor::Run is called without the lock: an executor may destroy the Turn at once, and the
  // Turn's destructor locks the mutex.
  state_->executor.Run(State::Turn(state_));
}

void Strand::RunOrPost(Task task) {
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(task));
    if (state_->draining) return;
    state_->draining = true;
  }
  // Drain gets its own pointer to the strand's state, because a task may destroy the strand.
  Drain(std::shared_ptr<State>(state_));
}

void Strand::Drain(const std::shared_ptr<State>& state) {
  for (int i = 0; i < kTasksPerDrainMax; ++i) {
    Task task;
    {
      MutexLock lock(state->mutex);
      if (state->queue.empty()) {
        state->draining = false;
        return;
      }
      task = std::move(state->queue.front());
      state->queue.pop_front();
    }
    // The task runs without the lock, so that the task may post to its own strand.
    task();
  }
  // The queue may still hold tasks, so the strand is handed to the executor again, with `draining`
  // still true.
  state->executor.Run(State::Turn(state));
}

}  // namespace cohort
