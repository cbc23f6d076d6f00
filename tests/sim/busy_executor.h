#pragma once

// A machine with more to do than it can: each task begins a while after its turn.

#include <utility>

#include "absl/time/time.h"
#include "common/base/sim_world.h"

namespace cohort {

// Lives on the world's thread.
class BusyExecutor final : public Executor {
 public:
  // delay_max: zero for a machine that is not busy.
  BusyExecutor(SimWorld& world, absl::Duration delay_max)
      : world_(world), delay_max_(delay_max) {}

  void Run(Task task) override {
    if (delay_max_ == absl::ZeroDuration()) return world_.Run(std::move(task));
    world_.CallAt(world_.Now() + delay_max_ * world_.rng().Uniform(), std::move(task));
  }

 private:
  SimWorld& world_;
  const absl::Duration delay_max_;
};

}  // namespace cohort
