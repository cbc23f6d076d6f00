#pragma once

// A process that may be busy, and may stand still, as under SIGSTOP: then its tasks begin when it
// goes on.

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// Lives on the world's thread.
class StoppingExecutor final : public Executor {
 public:
  // delay_max: zero for a machine that is not busy.
  StoppingExecutor(SimWorld& world, absl::Duration delay_max)
      : world_(world), delay_max_(delay_max) {}

  void Stop(absl::Duration duration) {
    stopped_until_ = std::max(stopped_until_, world_.Now() + duration);
  }
  void Run(Task task) override {
    const bool stands = world_.Now() < stopped_until_;
    if (!stands && delay_max_ == absl::ZeroDuration()) return world_.Run(std::move(task));
    const absl::Time begin = stands ? stopped_until_ : world_.Now();
    world_.CallAt(begin + delay_max_ * world_.rng().Uniform(), std::move(task));
  }

 private:
  SimWorld& world_;
  const absl::Duration delay_max_;
  absl::Time stopped_until_ = absl::InfinitePast();
};

}  // namespace cohort
