#include "coordinator/cluster/cluster.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// Makes the error of class PS_LOST for a lost home of variables. The error's text ends with the
// advice `remedy`.
absl::Status PsLost(TaskId task, uint64_t incarnation, absl::string_view cause,
                    absl::string_view remedy) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role(RoleName(task.role));
  detail.mutable_origin()->set_index(task.index);
  detail.mutable_origin()->set_incarnation(incarnation);
  const char* const what = task.role == Role::kPs ? "parameter server " : "the home of variables ";
  return WithDetail(
      absl::UnavailableError(absl::StrCat(what, task.ToString(), " was lost: ", cause, remedy)),
      detail);
}

}  // namespace

uint64_t LossWatches::Add(std::optional<TaskId> task, Lost lost) {
  MutexLock lock(mutex_);
  watches_[++last_] = {task, std::move(lost)};
  return last_;
}

void LossWatches::Forget(uint64_t watch) {
  // The watch is destroyed after the lock is released, because its callback may own other objects.
  Watch forgotten;
  MutexLock lock(mutex_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  forgotten = std::move(found->second);
  watches_.erase(found);
}

void LossWatches::Tell(std::optional<TaskId> task, const absl::Status& cause) {
  // The callbacks run outside the lock, because they may add watches.
  std::vector<Lost> callbacks;
  {
    MutexLock lock(mutex_);
    for (auto watch = watches_.begin(); watch != watches_.end();) {
      if (watch->second.task != task) {
        ++watch;
        continue;
      }
      callbacks.push_back(std::move(watch->second.lost));
      watch = watches_.erase(watch);
    }
  }
  for (Lost& lost : callbacks) lost(cause);
}

std::shared_ptr<Cluster> Cluster::Create(World world, Options options) {
  const std::shared_ptr<Cluster> cluster(new Cluster(world, std::move(options)));
  ReachWatch::Options reach;
  reach.lease = cluster->options_.self.lease;
  // These callbacks hold weak pointers to the cluster, because the cluster owns the ReachWatch.
  reach.is_heard = [weak = std::weak_ptr(cluster)](TaskId task) {
    const auto self = weak.lock();
    return self != nullptr && self->IsHeard(task);
  };
  reach.on_change = [weak = std::weak_ptr(cluster)] {
    const auto self = weak.lock();
    if (self != nullptr && self->options_.on_apart) self->options_.on_apart(self->FindApart());
  };
  cluster->reach_ = std::make_shared<ReachWatch>(world.clock, std::move(reach));
  return cluster;
}

Cluster::Cluster(World world, Options options)
    : world_(world), options_(std::move(options)), roster_(options_.spec, options_.limits) {}

Cluster::~Cluster() { Stop(); }

std::string Cluster::AddressOf(TaskId task) const {
  MutexLock lock(mutex_);
  return AddressOfLocked(task);
}

std::string Cluster::AddressOfLocked(TaskId task) const {
  const Member* member = roster_.Find(task);
  if (const auto found = leaving_.find(task); found != leaving_.end()) {
    member = &found->second.member;
  }
  if (member == nullptr) return kNowhere;
  // A worker that was added with an address has that address. The addresses of all other tasks come
  // from options_.address, if it is set.
  const bool own = member->added && !member->address.empty();
  return options_.address && !own ? options_.address(task) : member->address;
}

bool Cluster::IsMember(TaskId task) const {
  MutexLock lock(mutex_);
  return roster_.Find(task) != nullptr;
}

proto::AttachRequest Cluster::MakeAttachLocked(uint64_t epoch, TaskId task) const {
  proto::AttachRequest attach = MakeAttach(options_.self, epoch);
  attach.set_seed(options_.seed);
  attach.set_lets_go(options_.on_leaving != nullptr);
  attach.set_compute_threads(options_.worker_threads);
  attach.set_worker_position(roster_.Find(task)->position);
  for (const TaskId ps : roster_.Tasks(options_.homes)) {
    // Each task is told the address and incarnation of every home of variables.
    proto::Peer* const peer = attach.add_ps();
    peer->mutable_task()->set_role(RoleName(ps.role));
    peer->mutable_task()->set_index(ps.index);
    peer->mutable_task()->set_incarnation(IncarnationLocked(ps));
    peer->set_address(AddressOfLocked(ps));
  }
  return attach;
}

uint64_t Cluster::IncarnationLocked(TaskId ps) const {
  const auto link = links_.find(ps);
  if (link != links_.end()) return link->second.task.incarnation();
  // If the home does not serve yet, its incarnation may be known from its answer to the epoch
  // claim.
  return claim_ == nullptr ? 0 : claim_->IncarnationOf(ps);
}

std::shared_ptr<TaskConnection> Cluster::MakeConnectionLocked(TaskId task) {
  TaskConnection::Options options;
  options.task = task;
  options.lease = options_.self.lease;
  // These callbacks hold weak pointers to the cluster, because the cluster owns the connection.
  const std::weak_ptr<Cluster> weak = weak_from_this();
  options.address = [weak, task, last = AddressOfLocked(task)] {
    const auto self = weak.lock();
    return self == nullptr ? last : self->AddressOf(task);
  };
  options.on_ready = [weak, task](const TaskLink& link) {
    if (const auto self = weak.lock()) self->OnReady(task, link);
  };
  options.on_lost = [weak, task](const absl::Status& cause) {
    if (const auto self = weak.lock()) self->OnLost(task, cause);
  };
  options.on_unreached = [reach = reach_](const proto::TaskRef& from,
                                          const std::vector<proto::TaskRef>& peers) {
    reach->Report(from, peers);
  };
  options.unreached_by = [reach = reach_, task] { return reach->UnreachedBy(task); };
  if (options_.on_leaving) {
    options.on_leaving = [weak, task](absl::Duration patience, absl::AnyInvocable<void()> let_go) {
      const auto self = weak.lock();
      if (self == nullptr) return let_go();
      self->options_.on_leaving(task, patience, std::move(let_go));
    };
  }
  // If another coordinator has taken a task with which the job began, it has taken over this job.
  // If it has taken a worker that was added later, it may as well be the coordinator of another
  // job, so that proves nothing.
  if (!roster_.Find(task)->added) {
    options.on_superseded = [weak](const absl::Status& cause) {
      if (const auto self = weak.lock()) self->OnSuperseded(TakenOver(cause));
    };
  }
  return TaskConnection::Create(world_, std::move(options));
}

void Cluster::Claim(uint64_t floor, absl::AnyInvocable<void(absl::StatusOr<uint64_t>)> done) {
  EpochClaim::Options options;
  options.address = [weak = weak_from_this()](TaskId task) {
    const auto self = weak.lock();
    return self == nullptr ? std::string(kNowhere) : self->AddressOf(task);
  };
  options.self = options_.self;
  options.call_timeout = options_.self.lease / 4;
  std::shared_ptr<EpochClaim> claim;
  std::shared_ptr<EpochClaim> replaced;
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    ended = ended_;
    // Added workers that have no copy of the variables yet are claimed like workers that are not
    // homes: they hold nothing that must be restored.
    for (const int home : HomesLocked()) options.ps.push_back({options_.homes, home});
    if (options_.homes != Role::kWorker) options.workers = roster_.Tasks(Role::kWorker);
    for (const int worker : joining_) options.workers.push_back({Role::kWorker, worker});
    options.floor = std::max(floor, epoch_);
    options.held = epoch_;
    claiming_ = true;
    // From here on, no task counts as serving, and losses of tasks are not reported, until the new
    // epoch is granted.
    for (const auto& [task, connection] : connections_) connection->Suspend();
    links_.clear();
    first_incarnation_.clear();
    dropped_.clear();  // the restore after the claim gives all homes valid copies
    ++changes_;        // copies under way become invalid: the restore makes them outdated
    claim = EpochClaim::Create(
        world_, std::move(options),
        [weak = weak_from_this(), done = std::move(done)](absl::StatusOr<uint64_t> epoch) mutable {
          if (const auto self = weak.lock()) {
            if (epoch.ok()) self->OnClaimed(*epoch);
            // An error of class STALE means that another coordinator has taken over, so this
            // coordinator's job ends.
            if (ClassOf(epoch.status()) == proto::STALE) self->OnSuperseded(epoch.status());
          }
          done(epoch);
        });
    replaced = std::exchange(claim_, claim);
  }
  // These methods are called without the lock, because they may run callbacks at once.
  if (replaced != nullptr) replaced->Cancel();
  if (!ended.ok()) return claim->Abort(ended);
  claim->Start();
}

void Cluster::OnClaimed(uint64_t epoch) {
  Log(LogLevel::kInfo, "epoch_claimed", {{"epoch", epoch}});
  Renewals renewals;
  {
    MutexLock lock(mutex_);
    epoch_ = epoch;
    claiming_ = false;
    told_ps_.clear();
    for (const TaskId ps : roster_.Tasks(Role::kPs)) {
      told_ps_[ps] = {IncarnationLocked(ps), AddressOfLocked(ps)};
    }
    for (const auto& [task, member] : roster_.members()) {
      std::shared_ptr<TaskConnection>& connection = connections_[task];
      if (connection == nullptr) connection = MakeConnectionLocked(task);
      renewals.emplace_back(connection, MakeAttachLocked(epoch, task));
    }
  }
  // Renew() is called without the lock, because a connection may call the cluster back.
  for (auto& [connection, attach] : renewals) connection->Renew(std::move(attach));
}

uint64_t Cluster::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

uint64_t Cluster::NextSave() {
  MutexLock lock(mutex_);
  return ++last_save_;
}

void Cluster::Stop() {
  std::shared_ptr<EpochClaim> claim;
  // Waits that are dropped. They are destroyed after the lock is released, because they are
  // declared before it.
  std::vector<ReadyWait> dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(ready_waits_);
    ended_ = absl::CancelledError("the coordinator ends");
    claim = claim_;
    for (const auto& [task, connection] : connections_) connection->Stop();
    for (const auto& [task, leaving] : leaving_) {
      if (leaving.connection != nullptr) leaving.connection->Stop();
    }
  }
  if (claim != nullptr) claim->Cancel();
}

void Cluster::WhenReady(int min_workers, absl::AnyInvocable<void(absl::Status)> done) {
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    ended = ended_;
    // OnReady() will call `done` when the last of the awaited tasks serves.
    if (ended.ok() && !IsReadyLocked(min_workers)) {
      ready_waits_.push_back({min_workers, std::move(done)});
      return;
    }
  }
  done(ended);
}

void Cluster::Abort(const absl::Status& why) {
  EndWaits(why);
  std::shared_ptr<EpochClaim> claim;
  {
    MutexLock lock(mutex_);
    if (claiming_) claim = claim_;
  }
  if (claim != nullptr) claim->Abort(why);
}

void Cluster::EndWaits(const absl::Status& why) {
  std::vector<ReadyWait> waits;
  {
    MutexLock lock(mutex_);
    ended_ = why;
    waits = std::exchange(ready_waits_, {});
  }
  // The callbacks run without the lock, because a callback may start a new wait.
  for (ReadyWait& wait : waits) wait.done(why);
}

void Cluster::OnSuperseded(const absl::Status& cause) {
  {
    MutexLock lock(mutex_);
    // The first cause is kept: it names the coordinator that has taken over.
    if (superseded_.ok()) superseded_ = cause;
  }
  EndWaits(cause);
  if (options_.on_superseded) options_.on_superseded(cause);
}

absl::Status Cluster::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

absl::Status Cluster::superseded() const {
  MutexLock lock(mutex_);
  return superseded_;
}

bool Cluster::IsReadyLocked(int min_workers) const {
  int workers = 0;
  int ps = 0;
  for (const auto& [task, link] : links_) {
    workers += task.role == Role::kWorker ? 1 : 0;
    // An added worker that has no copy of the variables yet counts as a worker, but not as a home.
    ps += task.role == options_.homes && joining_.count(task.index) == 0 ? 1 : 0;
  }
  return workers >= min_workers && ps == static_cast<int>(HomesLocked().size());
}

std::vector<ReadyWait> Cluster::TakeReadyLocked() {
  std::vector<ReadyWait> ready;
  for (auto wait = ready_waits_.begin(); wait != ready_waits_.end();) {
    if (!IsReadyLocked(wait->min_workers)) {
      ++wait;
      continue;
    }
    ready.push_back(std::move(*wait));
    wait = ready_waits_.erase(wait);
  }
  return ready;
}

void Cluster::SuspectWorker(int worker, uint64_t incarnation) {
  Suspect(TaskId{Role::kWorker, worker}, incarnation);
}

void Cluster::SuspectPs(int ps) { Suspect(TaskId{options_.homes, ps}, std::nullopt); }

void Cluster::Suspect(TaskId task, std::optional<uint64_t> incarnation) {
  std::shared_ptr<TaskConnection> connection;
  {
    MutexLock lock(mutex_);
    const auto found = connections_.find(task);
    const auto link = links_.find(task);
    if (found == connections_.end() || link == links_.end()) return;
    connection = found->second;
    // If no incarnation was given, the process that serves now becomes the suspect.
    if (!incarnation.has_value()) incarnation = link->second.task.incarnation();
  }
  // The connection is called without the lock: if the task is lost, the connection calls OnLost().
  connection->Suspect(*incarnation, absl::UnavailableError("a call to it failed"));
}

void Cluster::OnReady(TaskId task, const TaskLink& link) {
  std::vector<ReadyWait> ready;
  Renewals renewals;
  bool ps_restarted = false;
  {
    MutexLock lock(mutex_);
    // The task is a worker that is being removed, and so no longer a member.
    if (roster_.Find(task) == nullptr) return;
    links_[task] = link;
    const uint64_t incarnation = link.task.incarnation();
    // In each epoch, the first process of a home that serves is the one that holds the variables.
    // Its incarnation is kept.
    uint64_t& first = first_incarnation_.emplace(task, incarnation).first->second;
    ps_restarted = task.role == options_.homes && first != incarnation;
    // A mirrored home whose process was restarted gets a new copy, so the new process may serve as
    // the home from now on.
    if (options_.mirrored) first = incarnation;
    if (!ps_restarted) renewals = TellWorkersLocked(task, link);
    ready = TakeReadyLocked();
  }
  // Renew() is called without the lock, because a connection may call the cluster back.
  for (auto& [connection, attach] : renewals) connection->Renew(std::move(attach));
  reach_->OnServing(link.task);
  // The home's earlier process was lost unnoticed. Its loss is reported before the new process is
  // reported as serving.
  if (ps_restarted) {
    const absl::Status lost =
        PsLost(task, link.task.incarnation(), "the process was restarted", options_.ps_lost_remedy);
    options_.on_ps_lost(lost);
    TellOfLoss(task, lost);
  }
  if (task.role == options_.homes && options_.on_home_serving) options_.on_home_serving(link);
  if (task.role == Role::kWorker) {
    options_.on_worker_ready(task.index, link);
    // If the worker was removed while on_worker_ready ran, the receiver may have added the worker
    // again. So its removal is reported once more.
    if (!IsMember(task)) options_.on_worker_removed(task.index, [] {});
  }
  for (ReadyWait& wait : ready) wait.done(absl::OkStatus());
}

Cluster::Renewals Cluster::TellWorkersLocked(TaskId ps, const TaskLink& link) {
  Renewals renewals;
  const auto told = told_ps_.find(ps);
  const Process process = {link.task.incarnation(), link.address};
  if (told == told_ps_.end() || told->second == process) return renewals;
  told->second = process;
  for (const auto& [task, connection] : connections_) {
    if (task.role != Role::kWorker) continue;
    // The worker counts as serving again once it has been told.
    links_.erase(task);
    renewals.emplace_back(connection, MakeAttachLocked(epoch_, task));
  }
  return renewals;
}

void Cluster::OnLost(TaskId task, const absl::Status& cause) {
  uint64_t incarnation = 0;
  bool is_home = false;
  {
    MutexLock lock(mutex_);
    is_home = task.role == options_.homes && roster_.Find(task) != nullptr;
    const auto found = links_.find(task);
    if (found != links_.end()) {
      incarnation = found->second.task.incarnation();
      links_.erase(found);
      // The loss is reported below, so OnReady() must not report it again.
      first_incarnation_.erase(task);
      // If the task has no link, its loss was reported before, except for a worker that is being
      // removed: its link was taken away by RemoveWorker().
    } else if (leaving_.count(task) == 0) {
      return;
    }
  }
  reach_->OnLost(task);
  if (task.role == Role::kWorker) options_.on_worker_lost(task.index, cause);
  const absl::Status lost = PsLost(task, incarnation, cause.message(), options_.ps_lost_remedy);
  if (is_home) options_.on_ps_lost(lost);  // a worker that is being removed is not a home
  TellOfLoss(task, is_home ? lost : cause);
}

absl::StatusOr<std::vector<TaskLink>> Cluster::ps() const {
  MutexLock lock(mutex_);
  std::vector<TaskLink> links;
  for (const int index : HomesInStepLocked()) {
    const TaskId task{options_.homes, index};
    const auto found = links_.find(task);
    if (found == links_.end()) {
      return PsLost(task, 0, DescribeLocked(task), options_.ps_lost_remedy);
    }
    links.push_back(found->second);
  }
  if (!links.empty()) return links;
  // If no home has a copy any more, the error names the first home, and says that all others were
  // lost as well.
  const TaskId first{options_.homes, HomesLocked().front()};
  return PsLost(first, 0, "as were all others that had the variables", options_.ps_lost_remedy);
}

absl::StatusOr<size_t> Cluster::PositionOfPs(uint32_t index) const {
  std::vector<int> indices;
  {
    MutexLock lock(mutex_);
    // The homes must be those of ps(), in the same order: the result is an index into the list that
    // ps() returns.
    indices = HomesInStepLocked();
  }
  const auto found = std::find(indices.begin(), indices.end(), static_cast<int>(index));
  if (found != indices.end()) return static_cast<size_t>(found - indices.begin());
  const bool ps = options_.homes == Role::kPs;
  return absl::InvalidArgumentError(absl::StrCat(
      "the cluster has no ", RoleName(options_.homes), ":", index, "; its ",
      ps ? "parameter servers" : "workers", " have the indices ", absl::StrJoin(indices, ", ")));
}

std::vector<TaskLink> Cluster::serving() const {
  MutexLock lock(mutex_);
  std::vector<TaskLink> links;
  for (const auto& [task, link] : links_) links.push_back(link);
  return links;
}

std::string Cluster::Report() const {
  MutexLock lock(mutex_);
  std::string report;
  for (const auto& [task, member] : roster_.members()) {
    absl::StrAppend(&report, report.empty() ? "" : "; ", DescribeLocked(task));
  }
  return report;
}

std::string Cluster::ReportMissing() const {
  std::vector<std::string> missing;
  {
    MutexLock lock(mutex_);
    for (const auto& [task, member] : roster_.members()) {
      if (!AnswersLocked(task)) missing.push_back(DescribeLocked(task));
    }
  }
  return missing.empty() ? Report() : absl::StrJoin(missing, "; ");
}

bool Cluster::AnswersLocked(TaskId task) const {
  const auto found = connections_.find(task);
  if (found != connections_.end()) return found->second->IsServing();
  // Before the first epoch is granted, there are no connections. Then the task's last answer to the
  // epoch claim decides.
  return claim_ == nullptr || claim_->LastError(task).ok();
}

std::vector<Cluster::Silent> Cluster::silent() const {
  MutexLock lock(mutex_);
  std::vector<Silent> silent;
  const auto ask = [&silent](TaskId task, const std::shared_ptr<TaskConnection>& connection) {
    const absl::Duration since =
        connection == nullptr ? absl::ZeroDuration() : connection->silence();
    if (since > absl::ZeroDuration()) silent.push_back({task, since});
  };
  for (const auto& [task, connection] : connections_) ask(task, connection);
  // Workers that are being removed are included, because a call may wait for their closures in
  // flight.
  for (const auto& [task, leaving] : leaving_) ask(task, leaving.connection);
  return silent;
}

std::vector<std::string> Cluster::ReportApart() const {
  const std::set<TaskPair> broken = reach_->broken();
  if (broken.empty()) return {};
  std::map<TaskId, size_t> workers_of;  // for each server, how many workers do not reach it
  size_t workers = 0;
  {
    MutexLock lock(mutex_);
    for (const auto& [task, member] : roster_.members()) {
      if (task.role == Role::kWorker) ++workers;
    }
  }
  const auto server = [](const TaskPair& pair) {
    return pair.first.role == Role::kPs ? pair.first : pair.second;
  };
  const auto is_with_server = [](const TaskPair& pair) {
    return (pair.first.role == Role::kPs) != (pair.second.role == Role::kPs);
  };
  for (const TaskPair& pair : broken) {
    if (is_with_server(pair)) ++workers_of[server(pair)];
  }
  std::vector<std::string> report;
  for (const auto& [ps, count] : workers_of) {
    // If no worker reaches a server, one text says so, instead of one text per worker.
    if (count == workers) report.push_back(absl::StrCat("no worker reaches ", ps.ToString()));
  }
  for (const TaskPair& pair : broken) {
    if (is_with_server(pair) && workers_of[server(pair)] == workers) continue;
    report.push_back(absl::StrCat(pair.first.ToString(), " and ", pair.second.ToString(),
                                  " do not reach each other"));
  }
  return report;
}

std::string Cluster::DescribeLocked(TaskId task) const {
  const auto found = connections_.find(task);
  const bool serves = found != connections_.end() && found->second->IsServing();
  // A local task is called at kNowhere as long as its process does not listen.
  if (!serves && AddressOfLocked(task) == kNowhere) {
    return absl::StrCat(task.ToString(), " is starting: its process does not listen yet");
  }
  if (found != connections_.end()) return found->second->Describe();
  const absl::Status error = claim_ == nullptr ? absl::OkStatus() : claim_->LastError(task);
  if (error.ok()) return absl::StrCat(task.ToString(), " waits for the others");
  return absl::StrCat(task.ToString(), " does not answer: ", error.message());
}

}  // namespace cohort
