#include "coordinator/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/homes/home_calls.h"
#include "proto/ps.pb.h"

namespace cohort {

namespace {

// The pause before a failed save or recovery is repeated.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// A task that is about to end has a limited time. This fraction of it is for closures in flight to
// end, and the same fraction again for the checkpoint.
constexpr double kHoldPart = 0.45;

// The number of failed restores in a row after which the job ends. Until then a restore is
// repeated, because a disk that fails once may work the next time.
constexpr int kFailedRestoresMax = 50;
constexpr char kPsService[] = "/cohort.proto.PsService/";

// Calls all callbacks in `waiting` with the status.
void RunAll(std::vector<Recovery::Done> waiting, const absl::Status& status) {
  for (Recovery::Done& done : waiting) done(status);
}

// Returns whether a call that failed with `status` may succeed if it is repeated: a server was
// lost, restarted or busy.
bool IsLoss(const absl::Status& status) {
  const proto::ErrorClass error_class = ClassOf(status);
  // STALE means that a recovery has claimed a newer epoch than that of the call.
  return error_class == proto::PS_LOST || error_class == proto::STALE ||
         error_class == proto::TRANSIENT || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status);
}

// Returns whether a restore that failed with `status` would fail again, for example because a file
// of the checkpoint is damaged or missing.
bool IsForGood(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

std::shared_ptr<Recovery> Recovery::Create(World world, Options options,
                                           std::shared_ptr<Cluster> cluster,
                                           std::shared_ptr<Scheduler> scheduler,
                                           std::shared_ptr<ShardTransfer> transfer) {
  return std::shared_ptr<Recovery>(new Recovery(world, std::move(options), std::move(cluster),
                                                std::move(scheduler), std::move(transfer)));
}

Recovery::Recovery(World world, Options options, std::shared_ptr<Cluster> cluster,
                   std::shared_ptr<Scheduler> scheduler, std::shared_ptr<ShardTransfer> transfer)
    : world_(world),
      options_(std::move(options)),
      cluster_(std::move(cluster)),
      scheduler_(std::move(scheduler)),
      transfer_(std::move(transfer)),
      strand_(world.executor),
      store_(world.files, options_.directory) {}

void Recovery::Post(absl::AnyInvocable<void()> task) {
  // The posted task holds a weak pointer, because the strand is a member of this object: if the
  // task never runs, it must not keep this object alive.
  strand_.Post([weak = weak_from_this(), task = std::move(task)]() mutable {
    if (const auto self = weak.lock()) task();
  });
}

void Recovery::Start() { Tick(); }

void Recovery::Stop() {
  Post([this] {
    if (phase_ != Phase::kStopped) StopFor(absl::CancelledError("the coordinator ends"));
  });
}

void Recovery::EndJob(const absl::Status& error) {
  Post([this, error] {
    if (phase_ != Phase::kStopped) GiveUp(error);
  });
}

void Recovery::StopFor(const absl::Status& why) {
  phase_ = Phase::kStopped;
  // With a new round_, answers to calls under way no longer count. Every waiting callback gets
  // `why`.
  stopped_ = why;
  ++round_;
  for (std::vector<Done>* waiting : {&asked_, &saving_}) RunAll(std::exchange(*waiting, {}), why);
  EndHold(hold_, why);
  if (adopting_) std::exchange(adopting_, {})(why);
}

void Recovery::SetApplicationState(ApplicationState state) {
  Post([this, state = std::move(state)]() mutable {
    application_ = std::move(state);
    SaveIfAsked();
  });
}

void Recovery::AddVariables(std::vector<proto::VariableLayout> layouts, Done done) {
  Post([this, layouts = std::move(layouts), done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    for (proto::VariableLayout& layout : layouts) variables_[layout.name()] = std::move(layout);
    // Without a checkpoint, a restore gives all variables their initial values. So new variables
    // need no checkpoint.
    if (committed_.prefix.empty()) return done(absl::OkStatus());
    asked_.push_back(std::move(done));
    SaveIfAsked();
  });
}

void Recovery::Forget(Done done) {
  Post([this, done = std::move(done)]() mutable {
    // StopFor() comes first, so that no checkpoint is written after Clear().
    StopFor(absl::CancelledError("the job has ended"));
    // Shards of a save under way would lie there after Clear(), since nothing calls their writers
    // back.
    forgetting_ = std::move(done);
    ClearIfForgotten();
  });
}

void Recovery::ClearIfForgotten() {
  if (writes_ == 0 && forgetting_) std::exchange(forgetting_, nullptr)(store_.Clear());
}

void Recovery::Tick() {
  world_.clock.CallAt(world_.clock.Now() + options_.interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self] {
      if (self->phase_ == Phase::kStopped) return;
      // If no closure was done since the last checkpoint, a new checkpoint would be equal to it.
      if (self->phase_ == Phase::kWatching && !self->scheduler_->BeginCut().covered.empty()) {
        self->asked_.push_back([](const absl::Status&) {});
        self->SaveIfAsked();
      }
      self->Tick();
    });
  });
}

void Recovery::Checkpoint(Done done) {
  Post([this, done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    asked_.push_back(std::move(done));
    SaveIfAsked();
  });
}

proto::CoordinatorState Recovery::MakeState(const Cut& cut) const {
  proto::CoordinatorState state;
  state.set_job(options_.job);
  state.set_epoch(cluster_->epoch());
  state.set_next_id(cut.next.value);
  state.set_watermark(cut.watermark.value);
  for (const ClosureId id : cut.open) state.add_open(id.value);
  // As long as the program has not set its function, it has done nothing, so the state that it left
  // in the last checkpoint is still right.
  state.set_application(application_ ? application_(cut) : committed_.state.application());
  return state;
}

Cut Recovery::WithWhatIsLeft(Cut cut) const {
  // If the program has passed all ids that the last committed state knows, nothing of that state is
  // left open.
  const ClosureId next{committed_.state.next_id()};
  if (!(cut.next < next)) return cut;
  for (const uint64_t id : committed_.state.open()) {
    // Ids below cut.next were scheduled again by the program, so the cut itself lists those that
    // are open.
    if (id >= cut.next.value) cut.open.push_back(ClosureId{id});
  }
  cut.next = next;
  cut.watermark = cut.open.empty() ? next : cut.open.front();
  return cut;
}

bool Recovery::HasState() const {
  return !options_.has_application_state || application_ || !committed_.prefix.empty();
}

void Recovery::SaveIfAsked() {
  if (phase_ != Phase::kWatching || asked_.empty() || !HasState()) return;
  phase_ = Phase::kSaving;
  // Callers of Checkpoint() from here on wait for the next checkpoint, because this one may not
  // contain their closures.
  saving_ = std::exchange(asked_, {});
  ++saves_begun_;
  savers_.clear();
  if (absl::Status prepared = store_.Prepare(); !prepared.ok()) return EndSave(prepared);
  // The callback holds a weak pointer, because this object owns the scheduler, and the scheduler
  // keeps the callback.
  const auto held = scheduler_->HoldRounds([weak = weak_from_this(), round = round_](auto status) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self = self.get(), round, status] {
      if (round == self->round_) self->OnRoundsHeld(status);
    });
  });
  if (held.has_value()) OnRoundsHeld(*held);
}

void Recovery::OnRoundsHeld(const absl::Status& status) {
  if (!status.ok()) return EndSave(status);
  // The cut begins before any ps freezes its slices. So every shard contains every closure that the
  // cut covers.
  Saving saving{round_, saves_begun_, "", {}, {}};
  scheduler_->BeginSnapshots([&](const Cut& begun) {
    saving.cut = WithWhatIsLeft(begun);
    saving.state = MakeState(saving.cut);
  });
  saving.prefix = store_.NewPrefix(saving.state.epoch());
  ShardTransfer::SaveOrder order;
  order.epoch = saving.state.epoch();
  order.prefix = saving.prefix;
  proto::NamedTensor& extra = order.extras.emplace_back();
  // The coordinator's state is saved as an extra tensor of the checkpoint. So the index commits the
  // state together with the slices.
  extra.set_name(kCoordinatorStateName);
  const Tensor bytes = CoordinatorStateTensor(saving.state);
  extra.mutable_tensor()->set_dtype(static_cast<int32_t>(bytes.dtype()));
  extra.mutable_tensor()->add_dims(bytes.num_elements());
  extra.mutable_tensor()->set_data(bytes.raw(), bytes.num_bytes());
  if (const auto savers = cluster_->savers(); savers.ok()) {
    for (const TaskLink& saver : *savers) savers_.insert(saver.task.index());
  }
  transfer_->Hold(order, [self = shared_from_this(), saving = std::move(saving)](auto held) {
    self->Post([self = self.get(), saving, held = std::move(held)]() mutable {
      self->OnHeld(saving, std::move(held));
    });
  });
}

void Recovery::OnHeld(const Saving& saving, absl::StatusOr<ShardTransfer::Held> held) {
  // If a recovery has begun since, variables were put back to an older checkpoint, and this save no
  // longer counts.
  if (!IsPresent(saving)) return;
  if (!held.ok()) return EndSave(held.status());
  scheduler_->EndSnapshots();  // closures run while the shards are written
  ++writes_;
  transfer_->Write(*std::move(held), [self = shared_from_this(), saving](auto saved) {
    self->Post([self = self.get(), saving, saved = std::move(saved)] {
      --self->writes_;
      self->ClearIfForgotten();
      self->OnSaved(saving, saved);
    });
  });
}

void Recovery::OnSaved(const Saving& saving,
                       const absl::StatusOr<std::vector<proto::SavedSlice>>& saved) {
  if (!IsPresent(saving)) return;
  const absl::Status committed =
      saved.ok() ? store_.Commit(saving.prefix, cluster_->num_savers(), *saved) : saved.status();
  // A failed save has no index, so no reader finds its files. They are removed.
  if (!committed.ok()) {
    store_.Discard(saving.prefix);
    return EndSave(committed);
  }
  committed_ = {saving.prefix, saving.state};
  // From here on the checkpoint survives a crash, so the redo log drops the closures that it
  // covers.
  scheduler_->CommitCut(saving.cut);
  Log(LogLevel::kInfo, "recovery_checkpoint",
      {{"prefix", saving.prefix},
       {"covered", saving.cut.covered.size()},
       {"open", saving.cut.open.size()}});
  EndSave(absl::OkStatus());
}

bool Recovery::IsPresent(const Saving& saving) const {
  return phase_ == Phase::kSaving && saving.round == round_ && saving.number == saves_begun_;
}

void Recovery::OnHomesAway(const std::set<int>& homes, const absl::Status& cause) {
  Post([this, homes, cause] {
    const bool away = std::any_of(homes.begin(), homes.end(),
                                  [this](int home) { return savers_.count(home) > 0; });
    if (phase_ != Phase::kSaving || !away) return;
    EndSave(Annotate(absl::UnavailableError(cause.message()), "the worker that saves is away"));
  });
}

void Recovery::EndSave(const absl::Status& status) {
  phase_ = Phase::kWatching;
  scheduler_->EndSnapshots();
  if (!status.ok()) {
    Log(LogLevel::kError, "recovery_checkpoint_failed", {{"cause", status.message()}});
    // The lost server may come back, so the callers wait for a later save.
    if (IsLoss(status)) return SaveLater();
    // If the redo log is full, only a checkpoint makes room in it. As long as the disk is full, the
    // job would wait without end. So the job gets the error.
    if (scheduler_->IsHeldByRedoLog()) {
      scheduler_->RecordError(Annotate(
          status, absl::StrCat("no recovery checkpoint could be written to ", store_.directory())));
    }
  }
  RunAll(std::exchange(saving_, {}), status);
  SaveIfAsked();
}

void Recovery::SaveLater() {
  for (Done& done : std::exchange(saving_, {})) asked_.push_back(std::move(done));
  world_.clock.CallAt(world_.clock.Now() + kRetryDelay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Post([self = self.get()] { self->SaveIfAsked(); });
  });
}

// From here on: CheckpointAndHold, which takes a checkpoint of all done closures before a process
// or a task ends.

void Recovery::CheckpointAndHold(absl::Duration patience, Done done) {
  Post([this, patience, done = std::move(done)]() mutable {
    // The call counts even if it fails, because its caller calls Release() in any case.
    ++holders_;
    if (phase_ == Phase::kStopped) return done(stopped_);
    if (!adopted_ || !HasState()) {
      return done(absl::UnavailableError("the training has not begun"));
    }
    if (phase_ == Phase::kRecovering) {
      return done(absl::UnavailableError("the job waits for a task that it has lost"));
    }
    // If another call is waiting for its checkpoint, this call waits for the same checkpoint.
    const bool begins = on_held_.empty();
    if (begins) ++hold_;
    on_held_[++last_waiter_] = std::move(done);
    // Makes a callback that posts a call of a method of this object to the strand. It holds a weak
    // pointer to this object.
    const auto post = [weak = weak_from_this()](void (Recovery::*then)(uint64_t), uint64_t of) {
      return [weak, then, of] {
        const auto self = weak.lock();
        if (self != nullptr) self->Post([self = self.get(), then, of] { (self->*then)(of); });
      };
    };
    const absl::Time now = world_.clock.Now();
    // The checkpoint begins once no closure is in flight, or after `patience`.
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
        // Release() only posts its work. The end of this home may begin a recovery, and Release()
        // takes effect after that. Closures that began earlier would be taken back by the recovery.
        if (const auto self = weak.lock()) self->Release();
      });
}

void Recovery::SaveHeld(uint64_t hold) {
  // This method is called once no closure is in flight, and again when the time is over. The first
  // call requests the checkpoint.
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

// From here on: the recovery from the newest checkpoint. It claims a new epoch, creates the
// variables anew, and restores their values.

void Recovery::Adopt(std::vector<RecoveryStore::Committed> left, Adopted done) {
  Post([this, left = std::move(left), done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    // This coordinator holds the epoch. So no earlier coordinator can complete a save, and the
    // files of incomplete saves can be removed.
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
  // Update() keeps the first error that it is given: the error of the newest checkpoint.
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
  // The checkpoint under way no longer counts. Its callers wait for the first checkpoint after the
  // recovery.
  for (Done& done : std::exchange(saving_, {})) asked_.push_back(std::move(done));
  if (!cause.ok()) {
    Log(LogLevel::kWarning, "recovery_started", {{"cause", cause.message()}});
  }
  if (options_.on_recovering) options_.on_recovering();
  // While homes are restored, no closure may run.
  scheduler_->Pause(cause.ok() ? "the job is resumed" : cause.message());
  EndHold(hold_, absl::UnavailableError("a task was lost before the checkpoint was done"));
  scheduler_->EndDrain();
  // The claim begins a new epoch, in which homes refuse all calls that were made before the
  // recovery.
  cluster_->Claim(
      committed_.state.epoch(), [self = shared_from_this(), round](absl::StatusOr<uint64_t> epoch) {
        self->Post([self = self.get(), round, epoch] { self->OnClaimed(round, epoch); });
      });
}

void Recovery::OnClaimed(uint64_t round, absl::StatusOr<uint64_t> epoch) {
  if (round != round_) return;
  // The claim fails only if another coordinator has taken over, or if the job was aborted.
  if (!epoch.ok()) return GiveUp(epoch.status());
  // The number of workers to wait for is 0, because a restore needs only the homes.
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
  // The histories of applied closures are restored as well (`applied`), so that pushes of closures
  // that run again are applied only once.
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
  // From here on, the caller of Adopt() may schedule closures.
  if (adopting_) std::exchange(adopting_, {})(committed_.state);
  SaveIfAsked();
}

void Recovery::GiveUp(const absl::Status& error) {
  scheduler_->Close(error);
  StopFor(error);
}

void Recovery::Retry(uint64_t round, const absl::Status& status) {
  if (round != round_) return;
  // During Adopt(), an older checkpoint may replace a damaged one, because this coordinator has not
  // run any closure yet. Later it may not: the redo log has dropped the closures between the two
  // checkpoints, so they could not run again.
  const bool damaged = absl::IsDataLoss(status) || absl::IsNotFound(status);
  if (!IsLoss(status) && damaged && adopting_ && TakeOlder(status)) {
    return Recover(absl::OkStatus());
  }
  if (!IsLoss(status) && (IsForGood(status) || ++failed_restores_ >= kFailedRestoresMax)) {
    // If older checkpoints were tried, the error of the newest one tells more than the error of the
    // last one.
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
      // A further loss during the pause may have begun a newer recovery.
      if (round == self->round_ && self->phase_ == Phase::kRecovering) self->Recover(status);
    });
  });
}

}  // namespace cohort
