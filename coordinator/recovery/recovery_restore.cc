// The way back to the newest checkpoint: a new epoch, then variables that are created anew, then
// their values from the checkpoint.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/homes/ps_group.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/recovery/retry.h"
#include "proto/ps.pb.h"

namespace cohort {

namespace {

// A disk may fail a read and then recover, so restores are repeated; this many failures in a row
// end the job.
constexpr int kFailedRestoresMax = 50;
constexpr char kPsService[] = "/cohort.proto.PsService/";

// Returns whether the checkpoint itself is at fault, so that reading it again would fail again.
bool IsForGood(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

void Recovery::Adopt(std::vector<RecoveryStore::Committed> left, Adopted done) {
  Post([this, left = std::move(left), done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    // This coordinator has the epoch now, so no earlier one can finish a save.
    store_.RemoveLeftovers(cluster_->epoch());
    older_ = std::move(left);
    if (!older_.empty()) {
      committed_ = std::move(older_.front());
      older_.erase(older_.begin());
    }
    adopting_ = std::move(done);
    Recover(absl::OkStatus());
  });
}

bool Recovery::TakeOlder(const absl::Status& damage) {
  // Keeps the first error, which belongs to the newest checkpoint.
  damage_.Update(damage);
  if (older_.empty()) return false;
  const std::string damaged = std::move(committed_.prefix);
  committed_ = std::move(older_.front());
  older_.erase(older_.begin());
  Log(LogLevel::kWarning, "recovery_checkpoint_damaged",
      {{"cause", damage.message()}, {"prefix", damaged}, {"taken", committed_.prefix}});
  return true;
}

void Recovery::OnPsLost(const absl::Status& cause) {
  Post([this, cause] {
    if (phase_ != Phase::kStopped) Recover(cause);
  });
}

void Recovery::Recover(const absl::Status& cause) {
  if (phase_ != Phase::kRecovering) recovering_since_ = world_.clock.Now();
  phase_ = Phase::kRecovering;
  const uint64_t round = ++round_;
  // A checkpoint under way is worthless now; its callers wait for the next one after the recovery.
  for (Done& done : std::exchange(saving_, {})) asked_.push_back(std::move(done));
  if (!cause.ok()) {
    Log(LogLevel::kWarning, "recovery_started", {{"cause", cause.message()}});
  }
  if (options_.on_recovering) options_.on_recovering();
  // No closure may run while homes are put back.
  scheduler_->Pause(cause.ok() ? "the job is resumed" : cause.message());
  EndHold(hold_, absl::UnavailableError("a task was lost before the checkpoint was done"));
  scheduler_->EndDrain();
  // The new epoch makes homes refuse every call of the time before the recovery.
  cluster_->Claim(
      committed_.state.epoch(), [self = shared_from_this(), round](absl::StatusOr<uint64_t> epoch) {
        self->Post([self = self.get(), round, epoch] { self->OnClaimed(round, epoch); });
      });
}

void Recovery::OnClaimed(uint64_t round, absl::StatusOr<uint64_t> epoch) {
  if (round != round_) return;
  // A claim fails only if another coordinator has taken over, or the job was aborted.
  if (!epoch.ok()) return GiveUp(epoch.status());
  // Only the homes are needed for a restore; workers may come later.
  cluster_->WhenReady(0, [self = shared_from_this(), round](absl::Status ready) {
    if (!ready.ok()) return self->EndJob(ready);
    self->Post([self = self.get(), round] { self->CreateVariables(round); });
  });
}

void Recovery::CreateVariables(uint64_t round) {
  if (round != round_) return;
  const absl::StatusOr<std::vector<TaskLink>> links = cluster_->ps();
  if (!links.ok()) return Retry(round, links.status());
  Envelope<proto::CreateVariablesRequest> request;
  request.header.set_epoch(cluster_->epoch());
  for (const auto& [name, layout] : variables_) *request.header.add_variables() = layout;
  std::vector<Envelope<proto::CreateVariablesRequest>> requests(links->size(), request);
  CallEach<proto::CreateVariablesResponse>(
      *links, absl::StrCat(kPsService, "CreateVariables"), std::move(requests),
      options_.call_timeout, [self = shared_from_this(), round](auto answers) {
        self->Post([self = self.get(), round, status = answers.status()] {
          if (!status.ok()) return self->Retry(round, status);
          self->Restore(round);
        });
      });
}

void Recovery::Restore(uint64_t round) {
  if (round != round_) return;
  ShardTransfer::RestoreOrder order;
  order.epoch = cluster_->epoch();
  order.prefix = committed_.prefix;
  order.slots = true;
  // With the log of applied closures, so that pushes of closures that run again are counted once.
  order.applied = true;
  order.watermark = committed_.state.watermark();
  transfer_->Restore(std::move(order), [self = shared_from_this(), round](absl::Status status) {
    self->Post([self = self.get(), round, status] { self->OnRestored(round, status); });
  });
}

void Recovery::OnRestored(uint64_t round, const absl::Status& status) {
  if (round != round_) return;
  if (!status.ok()) return Retry(round, status);
  phase_ = Phase::kWatching;
  failed_restores_ = 0;
  Log(LogLevel::kInfo, "recovered",
      {{"epoch", cluster_->epoch()},
       {"checkpoint", committed_.prefix.empty() ? "none: initial values" : committed_.prefix},
       {"seconds", absl::ToDoubleSeconds(world_.clock.Now() - recovering_since_)}});
  if (options_.on_recovered) options_.on_recovered();
  scheduler_->Resume(cluster_->epoch());
  older_.clear();
  adopted_ = true;
  // The caller of Adopt may schedule closures from here on.
  if (adopting_) std::exchange(adopting_, {})(committed_.state);
  SaveIfAsked();
}

void Recovery::GiveUp(const absl::Status& error) {
  scheduler_->Close(error);
  StopFor(error);
}

void Recovery::Retry(uint64_t round, const absl::Status& status) {
  if (round != round_) return;
  // A coordinator that has just started has run no closure, so it may begin at an older cut. A
  // coordinator that has lived longer no longer has the closures between the older cut and the
  // newest one.
  const bool damaged = absl::IsDataLoss(status) || absl::IsNotFound(status);
  if (!IsLoss(status) && damaged && adopting_ && TakeOlder(status)) {
    return Recover(absl::OkStatus());
  }
  if (!IsLoss(status) && (IsForGood(status) || ++failed_restores_ >= kFailedRestoresMax)) {
    // The error of the newest checkpoint tells more than that of the last one tried.
    const absl::Status& first = adopting_ && !damage_.ok() ? damage_ : status;
    return GiveUp(Annotate(
        first, damaged && !adopting_
                   ? "the job could not be put back to its last checkpoint; when it is started "
                     "again it goes on from the one before"
                   : "the job could not be put back to its last checkpoint"));
  }
  Log(LogLevel::kWarning, "recovery_retried", {{"cause", status.message()}});
  world_.clock.CallAt(world_.clock.Now() + kRetryDelay, [weak = weak_from_this(), round, status] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self, round, status] {
      // Another loss may have begun a newer recovery meanwhile.
      if (round == self->round_ && self->phase_ == Phase::kRecovering) self->Recover(status);
    });
  });
}

}  // namespace cohort
