#pragma once

// Blocking code inside a simulation. An actor is a thread of its own that runs only while the world
// stands still: it takes over when what it waits for has happened, and hands back when it waits
// again. So several coordinators, each with its blocking API, live in one simulation, and one seed
// is still one run.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// Lives on the world's thread; Wait and Pause also on actors.
class SimActors {
 public:
  explicit SimActors(SimWorld& world) : world_(world) {}
  // Every actor has ended.
  ~SimActors();
  SimActors(const SimActors&) = delete;
  SimActors& operator=(const SimActors&) = delete;

  // `body` begins with the next step.
  void Spawn(std::function<void()> body);

  // On an actor: false when the time ran out first. `holds` is asked on the world's thread, after
  // each event.
  bool Wait(std::function<bool()> holds, absl::Duration timeout);

  // The caller, an actor or an event, goes on so much later; the world goes on meanwhile. Events
  // that pause inside each other end in reverse order.
  void Pause(absl::Duration duration);

  // On the world's thread: runs events and actors. False when nothing is left, or the limit ends.
  bool RunUntil(absl::FunctionRef<bool()> holds, absl::Duration limit);

 private:
  struct Actor {
    std::thread thread;
    std::function<bool()> holds;
    absl::Time deadline = absl::InfinitePast();
    bool ended = false;
  };

  // Gives `next` (nullptr: the world) the turn.
  void Pass(Actor* next) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets every actor run whose wait is over, until all wait.
  void RunActors();

  SimWorld& world_;
  std::vector<std::unique_ptr<Actor>> actors_;
  Mutex mutex_;
  CondVar turned_;
  Actor* turn_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace cohort
