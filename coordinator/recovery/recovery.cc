#include "coordinator/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/recovery/retry.h"

namespace cohort {

namespace {

// Runs all waiting callbacks with one status.
void RunAll(std::vector<Recovery::Done> waiting, const absl::Status& status) {
  for (Recovery::Done& done : waiting) done(status);
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
  // A weak pointer, because the strand belongs to this object: a task that never runs would keep
  // both alive.
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
  // The new round makes answers of calls under way void. Then every waiting callback gets the
  // reason.
  stopped_ = why;
  ++round_;
  for (std::vector<Done>* waiting : {&asked_, &saving_}) RunAll(std::exchange(*waiting, {}), why);
  EndHold(hold_, why);
  if (adopting_) std::exchange(adopting_, {})(why);
}

void Recovery::SetApplicationState(ApplicationState state) {
  Post([this, state = std::move(state)]() mutable { application_ = std::move(state); });
}

void Recovery::AddVariables(std::vector<proto::VariableLayout> layouts, Done done) {
  Post([this, layouts = std::move(layouts), done = std::move(done)]() mutable {
    if (phase_ == Phase::kStopped) return done(stopped_);
    for (proto::VariableLayout& layout : layouts) variables_[layout.name()] = std::move(layout);
    // Without a checkpoint a restore gives the initial values, which need none.
    if (committed_.prefix.empty()) return done(absl::OkStatus());
    asked_.push_back(std::move(done));
    SaveIfAsked();
  });
}

void Recovery::Forget(Done done) {
  Post([this, done = std::move(done)]() mutable {
    // Stopped first, so that no save writes a checkpoint after Clear.
    StopFor(absl::CancelledError("the job has ended"));
    done(store_.Clear());
  });
}

void Recovery::Tick() {
  world_.clock.CallAt(world_.clock.Now() + options_.interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self] {
      if (self->phase_ == Phase::kStopped) return;
      // If the last checkpoint covers every closure that is done, a new one would be equal to it.
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
  if (application_) state.set_application(application_(cut));
  return state;
}

Cut Recovery::WithWhatIsLeft(Cut cut) const {
  // A program that has come past the ids of the last state has nothing left from it.
  const ClosureId next{committed_.state.next_id()};
  if (!(cut.next < next)) return cut;
  for (const uint64_t id : committed_.state.open()) {
    // Smaller ids were scheduled again, so the cut itself knows whether they are open.
    if (id >= cut.next.value) cut.open.push_back(ClosureId{id});
  }
  cut.next = next;
  cut.watermark = cut.open.empty() ? next : cut.open.front();
  return cut;
}

void Recovery::SaveIfAsked() {
  if (phase_ != Phase::kWatching || asked_.empty()) return;
  phase_ = Phase::kSaving;
  // Callers that ask from here on wait for the next checkpoint, which includes their closures.
  saving_ = std::exchange(asked_, {});
  ++saves_begun_;
  savers_.clear();
  if (absl::Status prepared = store_.Prepare(); !prepared.ok()) return EndSave(prepared);
  // A weak pointer, because this object holds the scheduler.
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
  // The cut is made before any ps takes its snapshot, so that all snapshots contain every closure
  // that the cut covers.
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
  // The coordinator's state is an extra tensor, so one index commits it together with the slices.
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
  // After a recovery this cut belongs to a past that was taken back.
  if (!IsPresent(saving)) return;
  if (!held.ok()) return EndSave(held.status());
  scheduler_->EndSnapshots();  // training goes on while the shards are written
  transfer_->Write(*std::move(held), [self = shared_from_this(), saving](auto saved) {
    self->Post(
        [self = self.get(), saving, saved = std::move(saved)] { self->OnSaved(saving, saved); });
  });
}

void Recovery::OnSaved(const Saving& saving,
                       const absl::StatusOr<std::vector<proto::SavedSlice>>& saved) {
  if (!IsPresent(saving)) return;
  const absl::Status committed =
      saved.ok() ? store_.Commit(saving.prefix, cluster_->num_savers(), *saved) : saved.status();
  // Without an index no reader finds the files, so they are removed.
  if (!committed.ok()) {
    store_.Discard(saving.prefix);
    return EndSave(committed);
  }
  committed_ = {saving.prefix, saving.state};
  // The redo log drops the covered closures only now that the checkpoint survives a crash.
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
    // A loss may pass, so the callers keep waiting.
    if (IsLoss(status)) return SaveLater();
    // The redo log is full and only a checkpoint empties it, so the job would wait for ever for a
    // disk that stays full.
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

}  // namespace cohort
