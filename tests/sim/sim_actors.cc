#include "tests/sim/sim_actors.h"

#include <utility>

#include "common/base/check.h"

namespace cohort {

namespace {
// The actor that this thread is; nullptr: the world.
thread_local void* this_actor = nullptr;
}  // namespace

SimActors::~SimActors() {
  for (const auto& actor : actors_) {
    COHORT_CHECK(actor->ended, "every actor ends before the simulation");
    actor->thread.join();
  }
}

void SimActors::Pass(Actor* next) {
  auto* const self = static_cast<Actor*>(this_actor);
  MutexLock lock(mutex_);
  turn_ = next;
  turned_.NotifyAll();
  if (self != nullptr && self->ended) return;
  while (turn_ != self) turned_.Wait(mutex_);
}

void SimActors::Spawn(std::function<void()> body) {
  auto owned = std::make_unique<Actor>();
  Actor* const actor = owned.get();
  actor->holds = [] { return true; };
  actor->thread = std::thread([this, actor, body = std::move(body)] {
    this_actor = actor;
    {
      MutexLock lock(mutex_);
      while (turn_ != actor) turned_.Wait(mutex_);
    }
    body();
    actor->ended = true;
    Pass(nullptr);
  });
  actors_.push_back(std::move(owned));
  world_.Run([] {});  // an event, so that there is a next step
}

bool SimActors::Wait(std::function<bool()> holds, absl::Duration timeout) {
  auto* const self = static_cast<Actor*>(this_actor);
  COHORT_CHECK(self != nullptr, "only an actor waits");
  if (holds()) return true;
  self->holds = holds;
  self->deadline = world_.Now() + timeout;
  const TimerId timer = world_.CallAt(self->deadline, [] {});
  Pass(nullptr);
  world_.Cancel(timer);
  return holds();
}

void SimActors::Pause(absl::Duration duration) {
  if (this_actor != nullptr) {
    Wait([] { return false; }, duration);
  } else {
    RunUntil([] { return false; }, duration);
  }
}

void SimActors::RunActors() {
  for (size_t i = 0; i < actors_.size(); ++i) {
    Actor& actor = *actors_[i];
    if (actor.ended || !actor.holds) continue;
    if (!actor.holds() && world_.Now() < actor.deadline) continue;
    actor.holds = nullptr;
    Pass(&actor);
    i = static_cast<size_t>(-1);  // what it did may have ended another's wait
  }
}

bool SimActors::RunUntil(absl::FunctionRef<bool()> holds, absl::Duration limit) {
  const absl::Time end = world_.Now() + limit;
  const TimerId timer = world_.CallAt(end, [] {});  // time stands at the end then
  bool held = false;
  while (true) {
    RunActors();
    held = holds();
    if (held || world_.Now() >= end || !world_.Step()) break;
  }
  world_.Cancel(timer);
  return held;
}

}  // namespace cohort
