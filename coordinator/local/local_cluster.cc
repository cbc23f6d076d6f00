#include "coordinator/local/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "coordinator/local/child_process.h"
#include "coordinator/local/find_daemon.h"
#include "coordinator/local/last_words.h"
#include "coordinator/local/state_directory.h"

namespace cohort {

namespace {
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr absl::Duration kRestartDelayMin = absl::Milliseconds(100);
constexpr absl::Duration kRestartDelayMax = absl::Seconds(5);
// If a child has run for this long, its end has a new cause, so restart delays begin anew.
constexpr absl::Duration kSoundAfter = absl::Seconds(10);
// The time that a process has to end after it was told to, before it is killed. By default, a task
// needs as long to end its open calls.
constexpr absl::Duration kLeftoverGrace = absl::Seconds(10);

// Returns the delay before a process is restarted for the time number `restarts`, counted from 0.
// The delay doubles each time, up to a limit.
absl::Duration RestartDelay(int restarts) {
  return std::min(kRestartDelayMax, kRestartDelayMin * (1 << std::min(restarts, 10)));
}
}  // namespace

// Starts, adopts, restarts and stops the child processes. Timers share its ownership. Thread-safe.
class LocalCluster::Impl : public std::enable_shared_from_this<LocalCluster::Impl> {
 public:
  Impl(World world, Options options, std::unique_ptr<StateDirectory> directory)
      : world_(world), options_(std::move(options)), directory_(std::move(directory)) {}

  // Looks for the executables. Errors: NOT_FOUND.
  absl::Status FindPrograms();
  // Starts or adopts the children, and waits until all of them listen. After an error, Stop must be
  // called. Errors: those of LocalCluster::Start.
  absl::Status Start(Waiter& waiter);
  // These methods do what those of LocalCluster with the same names do.
  ClusterSpec spec() const;
  std::string Address(TaskId task) const;
  std::map<TaskId, pid_t> pids() const;
  absl::StatusOr<TaskId> AddWorker(const std::set<int>& taken);
  void RemoveWorker(TaskId task);
  void Stop(Waiter& waiter, absl::Duration grace);
  // Sends a signal to every child, and to every process that was told to end. From then on, no
  // child is started.
  void Signal(int signal);

 private:
  struct Child {
    std::optional<SupervisedProcess> process;
    std::string address;  // the child's address; empty until the child listens
    int restarts = 0;
    int deaths_before_listening = 0;  // deaths in a row of processes that never listened
    std::string last_death;           // how the last process ended; empty if none has ended
    uint64_t log_begin = 0;           // size of the log file when the process was started
    absl::Time started_at;
    // The time at which a task without a process gets a new one.
    absl::Time restart_at = absl::InfinitePast();
  };
  // A process that was told to end: a worker's that was removed, or one of an earlier coordinator
  // that was not adopted.
  struct Leftover {
    SupervisedProcess process;
    absl::Time kill_at;
  };

  absl::Status TakeOverLocked(const std::map<TaskId, StateDirectory::Record>& records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Spawn(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll();
  void PollLeftoversLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PollChildLocked(TaskId task, Child& child) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEndLocked(TaskId task, Child& child, const std::string& how)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Describes how the process of a child has ended: the manner, its last words and its log file.
  std::string Death(TaskId task, const Child& child, const std::string& how) const;
  // Describes what Start still waits for.
  std::string Awaited() const;
  void Forget(TaskId task);
  std::vector<std::string> Settings(Role role) const;
  absl::Status Begin();
  std::string WhyNotAdopt(TaskId task, const StateDirectory::Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TfConfig(TaskId task) const;

  const World world_;
  const Options options_;
  const std::unique_ptr<StateDirectory> directory_;
  std::map<Role, std::string> programs_;  // paths of the executables; not changed after Start
  Event listening_;                       // happens once every child listens, or a child has failed
  Event ended_;                           // happens once every child has ended, after Stop or Kill
  mutable Mutex mutex_;
  std::map<TaskId, Child> children_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, Leftover> leftovers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status start_error_ ABSL_GUARDED_BY(mutex_);
};

absl::Status LocalCluster::Impl::Start(Waiter& waiter) {
  // Polling begins even if there was an error: Stop() waits until Poll() finds that all children
  // have ended.
  absl::Status error = Begin();
  Poll();
  if (error.ok() && !waiter.Wait(listening_, options_.start_timeout)) {
    error = absl::DeadlineExceededError(Awaited());
  }
  if (!error.ok()) return error;
  MutexLock lock(mutex_);
  return start_error_;
}

absl::Status LocalCluster::Impl::Begin() {
  ASSIGN_OR_RETURN(const auto records, directory_->Read());
  MutexLock lock(mutex_);
  for (int i = 0; i < options_.ps; ++i) children_[TaskId{Role::kPs, i}];
  for (int i = 0; i < options_.workers; ++i) children_[TaskId{Role::kWorker, i}];
  // Processes that an earlier coordinator has left are adopted first. Tasks without such a process
  // get a new one.
  RETURN_IF_ERROR(TakeOverLocked(records));
  for (auto& [task, child] : children_) {
    if (child.process.has_value() || leftovers_.count(task) > 0) continue;
    RETURN_IF_ERROR(Spawn(task, child));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::Impl::TakeOverLocked(
    const std::map<TaskId, StateDirectory::Record>& records) {
  for (const auto& [task, record] : records) {
    absl::StatusOr<SupervisedProcess> process = SupervisedProcess::Adopt(record.process);
    // NOT_FOUND means that the recorded process has ended. Its number may belong to another
    // process.
    if (absl::IsNotFound(process.status())) {
      Forget(task);
      continue;
    }
    RETURN_IF_ERROR(process.status());
    const std::string cause = WhyNotAdopt(task, record);
    if (cause.empty()) {
      Log(LogLevel::kInfo, "child_adopted", {{"task", task.ToString()}, {"pid", process->pid()}});
      Child& child = children_.at(task);
      child.process = *std::move(process);
      child.started_at = world_.clock.Now();
      continue;
    }
    Log(LogLevel::kInfo, "leftover_stopped",
        {{"task", task.ToString()}, {"pid", process->pid()}, {"cause", cause}});
    process->Signal(SIGTERM);
    leftovers_.emplace(task, Leftover{*std::move(process), world_.clock.Now() + kLeftoverGrace});
  }
  return absl::OkStatus();
}

std::string LocalCluster::Impl::WhyNotAdopt(TaskId task,
                                            const StateDirectory::Record& record) const {
  if (children_.count(task) == 0) return "the cluster has no such task now";
  const std::string program = programs_.at(task.role);
  // A process that was started before its program file was rebuilt is refused here as well.
  if (!RunsProgram(record.process.pid, program)) {
    return absl::StrCat("it does not run ", program);
  }
  if (record.arguments != Settings(task.role)) return "it was started with other arguments";
  return "";
}

absl::Status LocalCluster::Impl::FindPrograms() {
  for (const Role role : {Role::kPs, Role::kWorker}) {
    if (role == Role::kPs && options_.ps == 0) continue;
    ASSIGN_OR_RETURN(programs_[role], FindDaemon(RoleName(role), options_.binary_directory));
  }
  return absl::OkStatus();
}

// Returns the program arguments of a task. A running process is adopted only if it was started with
// the same ones.
std::vector<std::string> LocalCluster::Impl::Settings(Role role) const {
  std::vector<std::string> settings = {
      "--bind_address=127.0.0.1:0",
      absl::StrCat("--transport=", TransportKindName(options_.transport)),
      absl::StrCat("--orphan_timeout=", absl::FormatDuration(options_.orphan_timeout))};
  if (role == Role::kWorker) {
    settings.push_back(absl::StrCat("--compute_threads=", options_.worker_threads));
  }
  return settings;
}

std::string LocalCluster::Impl::TfConfig(TaskId task) const {
  nlohmann::json config;
  if (options_.ps > 0) {
    config["cluster"]["ps"] = std::vector<std::string>(options_.ps, "127.0.0.1:0");
  }
  // TF_CONFIG must list the task itself. An added worker may have an index beyond those of the
  // first workers.
  const int workers =
      task.role == Role::kWorker ? std::max(options_.workers, task.index + 1) : options_.workers;
  config["cluster"]["worker"] = std::vector<std::string>(workers, "127.0.0.1:0");
  config["task"] = {{"type", RoleName(task.role)}, {"index", task.index}};
  return config.dump();
}

absl::Status LocalCluster::Impl::Spawn(TaskId task, Child& child) {
  child.address.clear();
  // The address file of the task's earlier process is removed. It would be taken for that of the
  // new process.
  RETURN_IF_ERROR(directory_->Remove(task));
  StateDirectory::Record record;
  record.program = programs_.at(task.role);
  record.arguments = Settings(task.role);
  ChildOptions options;
  options.program = record.program;
  options.arguments = record.arguments;
  options.arguments.push_back(absl::StrCat("--address_file=", directory_->AddressFile(task)));
  // Only homes of variables get a grant file, in which they keep the epoch that they have granted.
  // Homes are the ps or, in a cluster without ps, the workers.
  if (task.role == Role::kPs || options_.ps == 0) {
    options.arguments.push_back(absl::StrCat("--grant_file=", directory_->GrantFile(task)));
  }
  if (task.role == Role::kWorker) {
    options.arguments.push_back(absl::StrCat("--flight_dir=", directory_->path()));
  }
  options.environment["TF_CONFIG"] = TfConfig(task);
  options.output_file = directory_->LogFile(task);
  child.log_begin = LogSize(world_.files, options.output_file);
  // Called while the child waits at its gate, so the record is complete before the program runs.
  options.record = [this, task, &record](pid_t pid) -> absl::Status {
    ASSIGN_OR_RETURN(record.process, IdentifyProcess(pid));
    return directory_->Write(task, record);
  };
  ASSIGN_OR_RETURN(child.process, SupervisedProcess::Start(options));
  child.started_at = world_.clock.Now();
  Log(LogLevel::kInfo, "child_started", {{"task", task.ToString()}, {"pid", child.process->pid()}});
  return absl::OkStatus();
}

void LocalCluster::Impl::Forget(TaskId task) {
  // A record that cannot be removed does no harm: the next coordinator finds that its process has
  // ended.
  const absl::Status removed = directory_->Remove(task);
  if (removed.ok()) return;
  Log(LogLevel::kWarning, "record_stays",
      {{"task", task.ToString()}, {"cause", removed.message()}});
}

void LocalCluster::Impl::Poll() {
  bool listening = true;
  bool running = false;
  bool again = true;
  {
    MutexLock lock(mutex_);
    PollLeftoversLocked();
    for (auto& [task, child] : children_) {
      PollChildLocked(task, child);
      listening = listening && !child.address.empty();
      running = running || child.process.has_value();
    }
    // Start() also waits until all processes that were not adopted have ended.
    listening = listening && leftovers_.empty();
    // If a child has ended at its start, Start() must stop waiting, and return the error.
    if (!start_error_.ok()) listening = true;
    again = !stopping_ || running || !leftovers_.empty();
  }
  // The events are notified without the lock, because a waiter may call this object.
  if (listening) listening_.Notify();
  if (!again) return ended_.Notify();
  world_.clock.CallAt(world_.clock.Now() + kPollInterval,
                      [self = shared_from_this()] { self->Poll(); });
}

void LocalCluster::Impl::PollLeftoversLocked() {
  for (auto leftover = leftovers_.begin(); leftover != leftovers_.end();) {
    auto& [task, process] = *leftover;
    if (process.process.Poll().has_value()) {
      Forget(task);
      leftover = leftovers_.erase(leftover);
      continue;
    }
    if (world_.clock.Now() >= process.kill_at) process.process.Signal(SIGKILL);
    ++leftover;
  }
}

void LocalCluster::Impl::PollChildLocked(TaskId task, Child& child) {
  if (!child.process.has_value()) {
    // A task's new process starts only after the task's earlier process has ended.
    const bool wait = world_.clock.Now() < child.restart_at || leftovers_.count(task) > 0;
    if (stopping_ || wait || !start_error_.ok()) return;
    if (const absl::Status error = Spawn(task, child); !error.ok()) {
      Log(LogLevel::kError, "restart_failed",
          {{"task", task.ToString()}, {"cause", error.message()}});
      child.restart_at = world_.clock.Now() + RestartDelay(++child.restarts);
    }
    return;
  }
  if (const auto how = child.process->Poll()) return OnEndLocked(task, child, *how);
  if (child.address.empty()) {
    const absl::StatusOr<std::string> text = ReadFile(world_.files, directory_->AddressFile(task));
    if (text.ok()) child.address = std::string(absl::StripAsciiWhitespace(*text));
    if (!child.address.empty()) child.deaths_before_listening = 0;
  }
}

void LocalCluster::Impl::OnEndLocked(TaskId task, Child& child, const std::string& how) {
  const absl::Time now = world_.clock.Now();
  if (now - child.started_at >= kSoundAfter) child.restarts = 0;
  child.last_death = Death(task, child, how);
  child.deaths_before_listening += child.address.empty() ? 1 : 0;
  child.process.reset();
  child.address.clear();
  Forget(task);
  if (stopping_) return;
  Log(LogLevel::kWarning, "child_ended",
      {{"task", task.ToString()},
       {"cause", absl::StrCat(task.ToString(), " ended: ", child.last_death)}});
  child.restart_at = now + RestartDelay(child.restarts++);
  // After the start, the other tasks go on, so the child is restarted as long as they do.
  if (listening_.HasHappened() || child.deaths_before_listening < kDeathsBeforeListeningMax) return;
  start_error_ = absl::FailedPreconditionError(
      absl::StrCat(task.ToString(), " ended ", child.deaths_before_listening,
                   " times in a row before it listened, the last time: ", child.last_death,
                   ": mend what the log tells, or stop what kills the process (",
                   programs_.at(task.role), "), and start the same command again"));
}

std::string LocalCluster::Impl::Death(TaskId task, const Child& child,
                                      const std::string& how) const {
  const std::string log = directory_->LogFile(task);
  const std::string words = LastWords(world_.files, log, child.log_begin);
  return absl::StrCat(how, words.empty() ? "" : absl::StrCat("; its last words: ", words),
                      "; its log is ", log);
}

std::string LocalCluster::Impl::Awaited() const {
  MutexLock lock(mutex_);
  std::vector<std::string> awaited;
  for (const auto& [task, child] : children_) {
    if (!child.address.empty()) continue;
    awaited.push_back(absl::StrCat(task.ToString(), " does not listen (",
                                   child.last_death.empty()
                                       ? absl::StrCat("its log is ", directory_->LogFile(task))
                                       : absl::StrCat("its last process ended: ", child.last_death),
                                   ")"));
  }
  for (const auto& [task, leftover] : leftovers_) {
    awaited.push_back(absl::StrCat("process ", leftover.process.pid(), ", which an earlier ",
                                   "coordinator started as ", task.ToString(), ", has not ended"));
  }
  return absl::StrCat(
      "the local tasks were not ready within ", absl::FormatDuration(options_.start_timeout), ": ",
      absl::StrJoin(awaited, ", "), ": mend what the logs tell, and start the same command again");
}

ClusterSpec LocalCluster::Impl::spec() const {
  MutexLock lock(mutex_);
  ClusterSpec spec;
  // A child may have died since it listened.
  for (const auto& [task, child] : children_) {
    spec.Add(task, child.address.empty() ? kNowhere : child.address);
  }
  return spec;
}

std::string LocalCluster::Impl::Address(TaskId task) const {
  MutexLock lock(mutex_);
  const auto found = children_.find(task);
  if (found == children_.end() || found->second.address.empty()) return kNowhere;
  return found->second.address;
}

std::map<TaskId, pid_t> LocalCluster::Impl::pids() const {
  MutexLock lock(mutex_);
  std::map<TaskId, pid_t> pids;
  for (const auto& [task, child] : children_) {
    pids[task] = child.process.has_value() ? child.process->pid() : 0;
  }
  return pids;
}

absl::StatusOr<TaskId> LocalCluster::Impl::AddWorker(const std::set<int>& taken) {
  MutexLock lock(mutex_);
  if (stopping_) return absl::CancelledError("the local tasks are being stopped");
  TaskId task{Role::kWorker, 0};
  // An index is skipped if a child has it, or if an earlier process with this index has not ended
  // yet.
  while (taken.count(task.index) > 0 || children_.count(task) > 0 || leftovers_.count(task) > 0) {
    ++task.index;
  }
  Child child;
  RETURN_IF_ERROR(Spawn(task, child));
  children_.emplace(task, std::move(child));
  return task;
}

void LocalCluster::Impl::RemoveWorker(TaskId task) {
  MutexLock lock(mutex_);
  const auto found = children_.find(task);
  if (found == children_.end() || task.role != Role::kWorker || stopping_) return;
  if (found->second.process.has_value()) {
    found->second.process->Signal(SIGTERM);
    leftovers_.emplace(
        task, Leftover{*std::move(found->second.process), world_.clock.Now() + kLeftoverGrace});
  }
  children_.erase(found);
}

void LocalCluster::Impl::Signal(int signal) {
  MutexLock lock(mutex_);
  stopping_ = true;
  for (const auto& [task, child] : children_) {
    if (child.process.has_value()) child.process->Signal(signal);
  }
  for (const auto& [task, leftover] : leftovers_) leftover.process.Signal(signal);
}

void LocalCluster::Impl::Stop(Waiter& waiter, absl::Duration grace) {
  Signal(SIGTERM);
  Signal(SIGCONT);  // otherwise a child that SIGSTOP has stopped would not handle SIGTERM
  if (waiter.Wait(ended_, grace)) return;
  Signal(SIGKILL);
  waiter.Wait(ended_, absl::Seconds(5));
}

absl::StatusOr<std::shared_ptr<LocalCluster>> LocalCluster::Start(World world, Waiter& waiter,
                                                                  Options options) {
  ASSIGN_OR_RETURN(auto directory, StateDirectory::Open(world.files, options.state_directory));
  const auto impl = std::make_shared<Impl>(world, std::move(options), std::move(directory));
  RETURN_IF_ERROR(impl->FindPrograms());
  if (const absl::Status error = impl->Start(waiter); !error.ok()) {
    impl->Stop(waiter, absl::Seconds(1));
    return error;
  }
  return std::shared_ptr<LocalCluster>(new LocalCluster(impl));
}

LocalCluster::LocalCluster(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

LocalCluster::~LocalCluster() = default;

ClusterSpec LocalCluster::spec() const { return impl_->spec(); }

std::string LocalCluster::Address(TaskId task) const { return impl_->Address(task); }

std::map<TaskId, pid_t> LocalCluster::pids() const { return impl_->pids(); }

absl::StatusOr<TaskId> LocalCluster::AddWorker(const std::set<int>& taken) {
  return impl_->AddWorker(taken);
}

void LocalCluster::RemoveWorker(TaskId task) { impl_->RemoveWorker(task); }

void LocalCluster::Stop(Waiter& waiter, absl::Duration grace) { impl_->Stop(waiter, grace); }

void LocalCluster::Kill() { impl_->Signal(SIGKILL); }

}  // namespace cohort
