#include "coordinator/recovery/copies.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/wire/error_detail.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/homes/shard_stream.h"

namespace cohort {

namespace {

// The pause after a failed copy to a worker. It doubles with each failure in a row.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);
// The longest pause after failed copies to a worker. It is much longer than the time for which a
// copy that fails, because two workers do not reach each other, keeps gangs from running.
constexpr absl::Duration kRetryDelayMax = absl::Seconds(30);
constexpr char kPsService[] = "/cohort.proto.PsService/";
// All copies use this prefix. So a source that begins to hold a shard for a new copy drops the
// shard that it held for a failed one.
constexpr char kHeldPrefix[] = "/copy";

// Makes the error of class PS_LOST for the loss of all copies. Its origin is the worker whose copy
// was lost last.
absl::Status NoneLeft(const absl::Status& cause) {
  proto::ErrorDetail detail = DetailOf(cause);
  detail.set_error_class(proto::PS_LOST);
  return WithDetail(
      absl::UnavailableError(absl::StrCat("no worker is left that has the variables; the last was ",
                                          TaskName(detail.origin()), ": ", cause.message())),
      detail);
}

}  // namespace

std::shared_ptr<Copies> Copies::Create(World world, Options options,
                                       std::shared_ptr<Cluster> cluster,
                                       std::shared_ptr<Scheduler> scheduler) {
  return std::shared_ptr<Copies>(
      new Copies(world, std::move(options), std::move(cluster), std::move(scheduler)));
}

Copies::Copies(World world, Options options, std::shared_ptr<Cluster> cluster,
               std::shared_ptr<Scheduler> scheduler)
    : world_(world),
      options_(std::move(options)),
      cluster_(std::move(cluster)),
      scheduler_(std::move(scheduler)),
      strand_(world.executor) {}

void Copies::Post(absl::AnyInvocable<void()> task) {
  // The posted task holds a weak pointer, because the strand is a member of this object: if the
  // task never runs, it must not keep this object alive.
  strand_.Post([weak = weak_from_this(), task = std::move(task)]() mutable {
    if (const auto self = weak.lock()) task();
  });
}

void Copies::AddVariables(std::vector<proto::VariableLayout> layouts) {
  Post([this, layouts = std::move(layouts)] {
    for (const proto::VariableLayout& layout : layouts) variables_[layout.name()] = layout;
  });
}

void Copies::OnOutOfStep(const std::map<int, uint64_t>& workers, const absl::Status& cause) {
  bool any_left = true;
  // The cluster is told at once and not on the strand, because the next call to homes must not go
  // to a home that is out of step.
  for (const auto& [worker, session] : workers) any_left = cluster_->DropHome(worker);
  Post([this, workers, cause, any_left] {
    if (phase_ == Phase::kAway) return;
    for (const auto& [worker, session] : workers) {
      Log(LogLevel::kWarning, "worker_out_of_step",
          {{"worker", worker}, {"cause", cause.message()}});
      uint64_t& last = out_of_step_[worker].session;
      // Only the latest of several sessions is kept, because a fence must cover the latest session.
      last = std::max(last, session);
    }
    if (any_left) return MakeNext();
    GoAway();
    scheduler_->ReleaseGangs();
    options_.on_all_lost(NoneLeft(cause));
  });
}

void Copies::GoAway() {
  phase_ = Phase::kAway;
  ++round_;
  // Answers to calls of these copies are ignored from now on, because they have no entry in
  // makings_.
  makings_.clear();
}

void Copies::OnLost(const absl::Status& error) {
  Post([this, error] {
    const int lost = DetailOf(error).origin().index();
    const auto waiting = out_of_step_.find(lost);
    // If the worker never had a copy of the variables, none is lost with it.
    const bool is_joining = waiting != out_of_step_.end() && waiting->second.joining;
    if (phase_ == Phase::kAway && !stopped_ && !is_joining) options_.on_all_lost(error);
    // Copies from or to the lost worker end now, because gangs do not run while copies are made.
    EndCopiesOf(lost, error);
  });
}

void Copies::EndCopiesOf(int worker, const absl::Status& status) {
  // The copies to end are collected first, because End() changes makings_.
  std::vector<Making> concerned;
  for (const auto& [save, making] : makings_) {
    if (making.worker() == worker || making.source.task.index() == worker) {
      concerned.push_back(making);
    }
  }
  for (const Making& making : concerned) End(making, status);
}

void Copies::OnAdded(int worker) {
  Post([this, worker] {
    out_of_step_[worker].joining = true;
    MakeNext();
  });
}

void Copies::OnRemoved(int worker) {
  Post([this, worker] {
    EndCopiesOf(worker, absl::CancelledError("the worker was removed"));
    out_of_step_.erase(worker);
  });
}

void Copies::OnServing(int worker) {
  Post([this, worker] {
    // A copy of the variables that was begun over the worker's earlier connection is given up,
    // because
    // its requests may never be answered.
    EndCopiesOf(worker, absl::UnavailableError("it was attached anew"));
    const auto waiting = out_of_step_.find(worker);
    if (waiting != out_of_step_.end()) waiting->second.not_before = absl::InfinitePast();
    MakeNext();
  });
}

void Copies::OnRecovery() {
  Post([this] {
    GoAway();
    scheduler_->ReleaseGangs();
  });
}

void Copies::Restored() {
  Post([this] {
    phase_ = Phase::kWatching;
    for (auto waiting = out_of_step_.begin(); waiting != out_of_step_.end();) {
      // The restore gave valid values to every home. Only workers that never had a copy still need
      // one.
      waiting = waiting->second.joining ? std::next(waiting) : out_of_step_.erase(waiting);
    }
    MakeNext();
  });
}

void Copies::Stop() {
  Post([this] {
    GoAway();
    stopped_ = true;
  });
}

void Copies::OnReach() {
  Post([this] {
    for (auto& [worker, waiting] : out_of_step_) waiting.not_before = absl::InfinitePast();
    // Copies to workers that the group will leave out anyway are ended, because gangs do not run
    // while copies are made.
    std::vector<Making> in_vain;
    for (const auto& [save, making] : makings_) {
      if (!cluster_->MayJoin(making.worker())) in_vain.push_back(making);
    }
    for (const Making& making : in_vain) {
      End(making, absl::UnavailableError("it does not reach all of the group"));
    }
    MakeNext();
  });
}

std::vector<TaskLink> Copies::Ready() const {
  std::vector<TaskLink> ready;
  for (const TaskLink& link : cluster_->serving()) {
    const auto waiting = out_of_step_.find(link.task.index());
    if (link.task.role() != RoleName(Role::kWorker) || waiting == out_of_step_.end()) continue;
    if (waiting->second.not_before > world_.clock.Now()) continue;
    // A worker that the group would leave out even with a copy gets none now.
    if (!cluster_->MayJoin(waiting->first)) continue;
    if (cluster_->IsReached({Role::kWorker, waiting->first})) ready.push_back(link);
  }
  return ready;
}

void Copies::MakeNext() {
  // In phase kMaking no gang runs, so further copies can begin at once.
  if (phase_ == Phase::kMaking) return BeginCopies();
  if (phase_ != Phase::kWatching || Ready().empty()) return;
  phase_ = Phase::kHolding;
  // The callback holds a weak pointer, because this object owns the scheduler, and the scheduler
  // keeps the callback.
  scheduler_->HoldGangs([weak = weak_from_this(), round = ++round_](absl::Status) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Post([self = self.get(), round] { self->OnGangsHeld(round); });
  });
}

void Copies::OnGangsHeld(uint64_t round) {
  if (round != round_) return;
  phase_ = Phase::kMaking;
  BeginCopies();
}

void Copies::BeginCopies() {
  const absl::StatusOr<std::vector<TaskLink>> in_step = cluster_->ps();
  for (const TaskLink& target : Ready()) {
    Waiting& waiting = out_of_step_[target.task.index()];
    // Each time that gangs are held (a round), a worker gets one attempt only. So copies that fail
    // do not hold the gangs for long.
    if (waiting.tried == round_) continue;
    if (!in_step.ok()) {
      PutOff(target.task.index(), in_step.status());
      continue;
    }
    const TaskLink* const source = SourceFor(target.task.index(), *in_step);
    if (source == nullptr) break;  // all sources are busy; End() begins further copies
    waiting.tried = round_;
    const uint64_t save = cluster_->NextSave();
    // The number of changes that the coordinator has made is noted before the copy begins. If it
    // differs at the end, the copy is not valid.
    makings_[save] = {save, waiting.session, cluster_->changes(), *source, target};
    Fence(makings_[save]);
  }
  if (!makings_.empty()) return;
  phase_ = Phase::kWatching;
  scheduler_->ReleaseGangs();
  MakeNext();
}

const TaskLink* Copies::SourceFor(int worker, const std::vector<TaskLink>& in_step) const {
  // After a failed copy, the worker gets its next copy from another source, because it may not
  // reach the first one.
  const auto failures = static_cast<size_t>(out_of_step_.at(worker).failures);
  for (size_t i = 0; i < in_step.size(); ++i) {
    const TaskLink& source = in_step[(failures + i) % in_step.size()];
    const bool is_busy = std::any_of(makings_.begin(), makings_.end(), [&](const auto& making) {
      return making.second.source.task.index() == source.task.index();
    });
    if (!is_busy) return &source;
  }
  return nullptr;
}

template <typename Response, typename Request>
void Copies::Call(uint64_t save, const TaskLink& link, const char* method, Request request,
                  absl::AnyInvocable<void(absl::StatusOr<Response>)> then) {
  request.set_epoch(cluster_->epoch());
  StartCall<Response>(*link.data, absl::StrCat(kPsService, method),
                      Envelope<Request>{std::move(request), {}}, options_.call_timeout,
                      [self = shared_from_this(), save, task = link.task,
                       then = std::move(then)](absl::StatusOr<Envelope<Response>> answer) mutable {
                        absl::StatusOr<Response> header = Response();
                        if (answer.ok()) {
                          header = std::move(answer->header);
                        } else {
                          header = AttributedHomeCall(answer.status(), task);
                        }
                        self->Post([self = self.get(), save, then = std::move(then),
                                    header = std::move(header)]() mutable {
                          if (self->makings_.count(save) > 0) then(std::move(header));
                        });
                      });
}

// Begins a copy: orders the target to refuse late pushes of its worker's earlier session, which
// would otherwise be applied on top of the copy.
void Copies::Fence(Making making) {
  if (making.session == 0) return CreateVariables(std::move(making));
  proto::FenceRequest request;
  request.add_worker_incarnations(making.session);
  const TaskLink target = making.target;
  Call<proto::FenceResponse>(making.save, target, "Fence", std::move(request),
                             [this, making = std::move(making)](const auto& answer) mutable {
                               if (!answer.ok()) return End(making, answer.status());
                               CreateVariables(std::move(making));
                             });
}

void Copies::CreateVariables(Making making) {
  proto::CreateVariablesRequest request;
  for (const auto& [name, layout] : variables_) *request.add_variables() = layout;
  const TaskLink target = making.target;
  Call<proto::CreateVariablesResponse>(
      making.save, target, "CreateVariables", std::move(request),
      [this, making = std::move(making)](const auto& answer) mutable {
        if (!answer.ok()) return End(making, answer.status());
        Hold(std::move(making));
      });
}

void Copies::Hold(Making making) {
  proto::HoldShardRequest request;
  request.set_save(making.save);
  request.set_prefix(kHeldPrefix);
  request.set_shard(0);
  request.set_num_shards(1);
  const TaskLink source = making.source;
  Call<proto::HoldShardResponse>(
      making.save, source, "HoldShard", std::move(request),
      [this, making = std::move(making)](const auto& answer) mutable {
        if (!answer.ok()) return End(making, answer.status());
        // If the source's process was restarted, it holds no variables, so the copy fails.
        if (answer->incarnation() != making.source.task.incarnation()) {
          return End(making, absl::UnavailableError("the source was started again"));
        }
        Copy(making, {answer->slices().begin(), answer->slices().end()});
      });
}

void Copies::Copy(const Making& making, std::vector<proto::SavedSlice> layout) {
  proto::RestoreShardRequest request;
  request.set_epoch(cluster_->epoch());
  // Each copy is restored under a prefix of its own, because a home restores the same prefix only
  // once.
  request.set_prefix(absl::StrCat(kHeldPrefix, "-", making.save));
  request.set_slots(true);
  request.set_applied(true);
  // No gang is under way, so the source's copy contains every closure below the watermark.
  request.set_watermark(scheduler_->BeginCut().watermark.value);
  request.set_staged(cluster_->NextSave());
  StartShardCopy(world_,
                 {making.source, making.target, making.save, std::move(layout), std::move(request),
                  options_.call_timeout, options_.chunk_bytes},
                 [self = shared_from_this(), making](absl::Status status) {
                   self->Post([self = self.get(), making, status] {
                     if (self->makings_.count(making.save) > 0) self->End(making, status);
                   });
                 });
}

void Copies::End(const Making& making, const absl::Status& status) {
  makings_.erase(making.save);
  // If the coordinator has changed variables since the copy began, the copy may lack these changes.
  // TakeHome() then returns false, and the copy is made again.
  if (status.ok() && cluster_->TakeHome(making.worker(), making.target.task, making.changes)) {
    out_of_step_.erase(making.worker());
    Log(LogLevel::kInfo, "worker_in_step",
        {{"worker", making.worker()}, {"copied_from", making.source.task.index()}});
    scheduler_->InStep(making.worker(), making.target.task.incarnation());
  } else {
    PutOff(making.worker(), status);
  }
  BeginCopies();
}

void Copies::PutOff(int worker, const absl::Status& status) {
  Log(LogLevel::kInfo, "copy_failed", {{"worker", worker}, {"cause", status.message()}});
  Waiting& waiting = out_of_step_[worker];
  const absl::Duration delay =
      // The exponent is limited, so that the result stays finite.
      std::min(kRetryDelay * std::exp2(std::min(waiting.failures++, 10)), kRetryDelayMax);
  waiting.not_before = world_.clock.Now() + delay;
  world_.clock.CallAt(waiting.not_before, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Post([self = self.get()] { self->MakeNext(); });
  });
}

}  // namespace cohort
