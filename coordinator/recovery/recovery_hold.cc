// The checkpoint of all closures that are done, for a process or a task that is about to leave.

#include <utility>

#include "common/base/log.h"
#include "coordinator/recovery/recovery.h"

namespace cohort {

namespace {
// The part of a leaving task's time that closures in flight have; their checkpoint has the same
// part again.
constexpr double kHoldPart = 0.45;
}  // namespace

void Recovery::CheckpointAndHold(absl::Duration patience, Done done) {
  Post([this, patience, done = std::move(done)]() mutable {
    // Counted even if the checkpoint is refused, because the caller calls Release in any case.
    ++holders_;
    if (phase_ == Phase::kStopped) return done(stopped_);
    if (!adopted_) return done(absl::UnavailableError("the training has not begun"));
    if (phase_ == Phase::kRecovering) {
      return done(absl::UnavailableError("the job waits for a task that it has lost"));
    }
    // A call that finds another call waiting shares its checkpoint.
    const bool begins = on_held_.empty();
    if (begins) ++hold_;
    on_held_[++last_waiter_] = std::move(done);
    // Makes a callback that runs a method on the strand, if this object still lives.
    const auto post = [weak = weak_from_this()](void (Recovery::*then)(uint64_t), uint64_t of) {
      return [weak, then, of] {
        const auto self = weak.lock();
        if (self != nullptr) self->Post([self = self.get(), then, of] { (self->*then)(of); });
      };
    };
    const absl::Time now = world_.clock.Now();
    // The checkpoint begins when closures have drained or, at the latest, after `patience`.
    world_.clock.CallAt(now + patience, post(&Recovery::SaveHeld, hold_));
    world_.clock.CallAt(now + 2 * patience, post(&Recovery::EndLateHold, last_waiter_));
    if (!begins) return;
    scheduler_->Drain([save = post(&Recovery::SaveHeld, hold_)](const absl::Status&) { save(); });
  });
}

void Recovery::SaveBeforeLeave(const std::string& task, absl::Duration patience,
                               absl::AnyInvocable<void()> let_go) {
  CheckpointAndHold(
      patience * kHoldPart, [weak = weak_from_this(), task,
                             let_go = std::move(let_go)](const absl::Status& kept) mutable {
        if (kept.ok()) {
          Log(LogLevel::kInfo, "saved_before_leave", {{"task", task}});
        } else {
          Log(LogLevel::kWarning, "not_saved_before_leave",
              {{"task", task},
               {"effect", "what was done since the last recovery checkpoint may run again"},
               {"cause", kept.message()}});
        }
        let_go();
        // Release is posted, so it runs after the recovery that begins with the loss of a home:
        // closures that began before it would be taken back.
        if (const auto self = weak.lock()) self->Release();
      });
}

void Recovery::SaveHeld(uint64_t hold) {
  // The drain and the timer both come here; the first of them requests the checkpoint.
  if (hold != hold_ || held_ == hold || phase_ == Phase::kStopped) return;
  held_ = hold;
  asked_.push_back([weak = weak_from_this(), hold](const absl::Status& status) {
    if (const auto self = weak.lock()) self->EndHold(hold, status);
  });
  SaveIfAsked();
}

void Recovery::EndHold(uint64_t hold, const absl::Status& status) {
  if (hold != hold_) return;
  for (auto& [waiter, done] : std::exchange(on_held_, {})) done(status);
}

void Recovery::EndLateHold(uint64_t waiter) {
  auto late = on_held_.extract(waiter);
  if (late.empty()) return;
  late.mapped()(absl::DeadlineExceededError("no recovery checkpoint was done in time"));
}

void Recovery::Release() {
  Post([this] {
    if (--holders_ == 0) scheduler_->EndDrain();
  });
}

}  // namespace cohort
