#include "coordinator/cluster/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "coordinator/cluster/child_process.h"

namespace cohort {

namespace {
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr absl::Duration kRestartDelayMin = absl::Milliseconds(100);
constexpr absl::Duration kRestartDelayMax = absl::Seconds(5);

absl::Duration RestartDelay(int restarts) {
  return std::min(kRestartDelayMax, kRestartDelayMin * (1 << std::min(restarts, 10)));
}
}  // namespace

absl::StatusOr<std::shared_ptr<LocalCluster>> LocalCluster::Start(World world, Waiter& waiter,
                                                                  Options options) {
  RETURN_IF_ERROR(world.files.MakeDirectories(options.state_directory));
  auto cluster = std::shared_ptr<LocalCluster>(new LocalCluster(world, std::move(options)));
  absl::Status error;
  {
    MutexLock lock(cluster->mutex_);
    for (int i = 0; i < cluster->options_.ps && error.ok(); ++i) {
      error = cluster->Spawn(TaskId{Role::kPs, i});
    }
    for (int i = 0; i < cluster->options_.workers && error.ok(); ++i) {
      error = cluster->Spawn(TaskId{Role::kWorker, i});
    }
  }
  cluster->Poll();
  if (error.ok() && !waiter.Wait(cluster->listening_, cluster->options_.start_timeout)) {
    error = absl::DeadlineExceededError(
        absl::StrCat("local tasks did not listen within ",
                     absl::FormatDuration(cluster->options_.start_timeout), "; their logs are in ",
                     cluster->options_.state_directory));
  }
  if (error.ok()) {
    MutexLock lock(cluster->mutex_);
    error = cluster->start_error_;
  }
  if (!error.ok()) {
    cluster->Stop(waiter, absl::Seconds(1));
    return error;
  }
  return cluster;
}

LocalCluster::LocalCluster(World world, Options options)
    : world_(world), options_(std::move(options)) {}

std::string LocalCluster::AddressFile(TaskId task) const {
  return JoinPath(options_.state_directory,
                  absl::StrCat(RoleName(task.role), "-", task.index, ".address"));
}

std::string LocalCluster::LogFile(TaskId task) const {
  return JoinPath(options_.state_directory,
                  absl::StrCat(RoleName(task.role), "-", task.index, ".log"));
}

std::string LocalCluster::TfConfig(TaskId task) const {
  nlohmann::json config;
  config["cluster"]["ps"] = std::vector<std::string>(options_.ps, "127.0.0.1:0");
  config["cluster"]["worker"] = std::vector<std::string>(options_.workers, "127.0.0.1:0");
  config["task"] = {{"type", RoleName(task.role)}, {"index", task.index}};
  return config.dump();
}

absl::Status LocalCluster::Spawn(TaskId task) {
  Child& child = children_[task];
  child.address.clear();
  child.restart_at = absl::InfiniteFuture();
  RETURN_IF_ERROR(world_.files.Remove(AddressFile(task)));
  ChildOptions options;
  options.program = JoinPath(options_.binary_directory, RoleName(task.role));
  options.arguments = {"--address_file", AddressFile(task), "--bind_address", "127.0.0.1:0",
                       "--transport", TransportKindName(options_.transport)};
  if (task.role == Role::kWorker) {
    options.arguments.push_back(absl::StrCat("--compute_threads=", options_.worker_threads));
  }
  options.environment["TF_CONFIG"] = TfConfig(task);
  options.output_file = LogFile(task);
  ASSIGN_OR_RETURN(child.pid, StartChild(options));
  return absl::OkStatus();
}

void LocalCluster::Poll() {
  bool listening = true;
  bool running = false;
  bool again = true;
  {
    MutexLock lock(mutex_);
    for (auto& [task, child] : children_) {
      PollChildLocked(task, child);
      listening = listening && !child.address.empty();
      running = running || child.pid != 0;
    }
    if (!start_error_.ok()) listening = true;
    again = !stopping_ || running;
  }
  if (listening) listening_.Notify();
  if (!again) return ended_.Notify();
  world_.clock.CallAt(world_.clock.Now() + kPollInterval,
                      [self = shared_from_this()] { self->Poll(); });
}

void LocalCluster::PollChildLocked(TaskId task, Child& child) {
  if (child.pid == 0) {
    if (stopping_ || world_.clock.Now() < child.restart_at) return;
    if (const absl::Status error = Spawn(task); !error.ok()) {
      Log(LogLevel::kError, "restart_failed",
          {{"task", task.ToString()}, {"cause", error.message()}});
      child.restart_at = world_.clock.Now() + RestartDelay(++child.restarts);
    }
    return;
  }
  if (const auto end = PollChild(child.pid)) {
    const bool started = !child.address.empty();
    child.pid = 0;
    child.address.clear();
    if (stopping_) return;
    const std::string cause =
        absl::StrCat(task.ToString(), " ended: ", *end, "; its log is ", LogFile(task));
    if (!started && child.restarts == 0) {
      start_error_ = absl::FailedPreconditionError(cause);
      return;
    }
    Log(LogLevel::kWarning, "child_ended", {{"task", task.ToString()}, {"cause", cause}});
    child.restart_at = world_.clock.Now() + RestartDelay(child.restarts++);
    return;
  }
  if (child.address.empty()) {
    const absl::StatusOr<std::string> text = ReadFile(world_.files, AddressFile(task));
    if (text.ok()) child.address = std::string(absl::StripAsciiWhitespace(*text));
  }
}

ClusterSpec LocalCluster::spec() const {
  MutexLock lock(mutex_);
  ClusterSpec spec;
  for (const auto& [task, child] : children_) spec.Add(task, child.address);
  return spec;
}

std::string LocalCluster::Address(TaskId task) const {
  MutexLock lock(mutex_);
  const auto found = children_.find(task);
  // Nobody listens on port 1 of loopback: a call to a child that is down fails at once.
  if (found == children_.end() || found->second.address.empty()) return "127.0.0.1:1";
  return found->second.address;
}

std::map<TaskId, pid_t> LocalCluster::pids() const {
  MutexLock lock(mutex_);
  std::map<TaskId, pid_t> pids;
  for (const auto& [task, child] : children_) pids[task] = child.pid;
  return pids;
}

void LocalCluster::Stop(Waiter& waiter, absl::Duration grace) {
  const auto signal_all = [this](int signal) {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& [task, child] : children_) {
      if (child.pid != 0) kill(child.pid, signal);
    }
  };
  signal_all(SIGTERM);
  if (waiter.Wait(ended_, grace)) return;
  signal_all(SIGKILL);
  waiter.Wait(ended_, absl::Seconds(5));
}

}  // namespace cohort
