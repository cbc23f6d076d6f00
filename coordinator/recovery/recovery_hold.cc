// A checkpoint of all that is done, for a process that is about to leave.

#include <utility>

#include "coordinator/recovery/recovery.h"

namespace cohort {

void Recovery::CheckpointAndHold(absl::Duration patience, Done done) {
  Post([this, patience, done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    if (phase_ == Phase::kRecovering) {
      return done(absl::UnavailableError("the job waits for a task that it has lost"));
    }
    on_held_.push_back(std::move(done));
    if (on_held_.size() > 1) return;
    const uint64_t hold = ++hold_;
    const auto post = [weak = weak_from_this(), hold](void (Recovery::*then)(uint64_t)) {
      return [weak, hold, then] {
        const auto self = weak.lock();
        if (self != nullptr) self->Post([self = self.get(), hold, then] { (self->*then)(hold); });
      };
    };
    const absl::Time now = world_.clock.Now();
    world_.clock.CallAt(now + patience, post(&Recovery::SaveHeld));
    world_.clock.CallAt(now + 2 * patience, post(&Recovery::EndLateHold));
    scheduler_->Drain([save = post(&Recovery::SaveHeld)](const absl::Status&) { save(); });
  });
}

void Recovery::SaveHeld(uint64_t hold) {
  if (hold != hold_ || held_ == hold || phase_ == Phase::kStopped) return;
  held_ = hold;
  asked_.push_back([weak = weak_from_this(), hold](const absl::Status& status) {
    if (const auto self = weak.lock()) self->EndHold(hold, status);
  });
  SaveIfAsked();
}

void Recovery::EndLateHold(uint64_t hold) {
  EndHold(hold, absl::DeadlineExceededError("no recovery checkpoint was done in time"));
}

void Recovery::EndHold(uint64_t hold, const absl::Status& status) {
  if (hold != hold_) return;
  for (Done& done : std::exchange(on_held_, {})) done(status);
}

void Recovery::Release() {
  Post([this] {
    if (on_held_.empty()) scheduler_->EndDrain();
  });
}

}  // namespace cohort
