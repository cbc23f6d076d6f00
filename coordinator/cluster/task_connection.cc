#include "coordinator/cluster/task_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"

namespace cohort {

namespace {
constexpr char kAttach[] = "/cohort.proto.TaskService/Attach";
constexpr char kWatch[] = "/cohort.proto.TaskService/Watch";
constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(1);
// A broken call alone is no death: so many failed attempts to attach again are. A killed process
// refuses them within half a second; a silent one lets each run into a part of the lease.
constexpr int kFailedAttemptsMax = 4;
}  // namespace

std::shared_ptr<TaskConnection> TaskConnection::Create(World world, Options options) {
  return std::shared_ptr<TaskConnection>(new TaskConnection(world, std::move(options)));
}

TaskConnection::TaskConnection(World world, Options options)
    : world_(world), options_(std::move(options)), backoff_(kBackoffMin) {}

void TaskConnection::Start() { Attach(); }

void TaskConnection::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
}

void TaskConnection::Suspect(uint64_t incarnation, const absl::Status& cause) {
  uint64_t generation;
  {
    MutexLock lock(mutex_);
    if (!serving_ || link_.task.incarnation() != incarnation) return;
    generation = generation_;
  }
  Lose(generation, cause, Certainty::kSuspected);
}

bool TaskConnection::IsServing() const {
  MutexLock lock(mutex_);
  return serving_;
}

std::string TaskConnection::Describe() const {
  MutexLock lock(mutex_);
  const std::string name = options_.task.ToString();
  if (serving_) return absl::StrCat(name, " serves at ", link_.address);
  if (last_error_.ok()) return absl::StrCat(name, " has not answered yet");
  return absl::StrCat(name, " does not answer: ", last_error_.message());
}

void TaskConnection::Attach() {
  TaskLink link;
  link.address = options_.address();
  link.control = world_.transport.Connect(link.address, Lane::kControl);
  link.data = world_.transport.Connect(link.address, Lane::kData);
  Channel& control = *link.control;
  StartCall<proto::AttachResponse>(
      control, kAttach, Envelope<proto::AttachRequest>{options_.attach, {}},
      options_.lease / kFailedAttemptsMax,
      [self = shared_from_this(), link = std::move(link)](
          absl::StatusOr<Envelope<proto::AttachResponse>> response) mutable {
        if (!response.ok()) return self->OnAttached(link, response.status());
        self->OnAttached(link, response->header);
      });
}

void TaskConnection::OnAttached(const TaskLink& link,
                                absl::StatusOr<proto::AttachResponse> response) {
  if (response.ok() && (response->task().role() != RoleName(options_.task.role) ||
                        response->task().index() != options_.task.index)) {
    response = absl::FailedPreconditionError(
        absl::StrCat("at ", link.address, " answers ", TaskName(response->task()), ", not ",
                     options_.task.ToString(), ": check the addresses in TF_CONFIG"));
  }
  if (!response.ok()) return OnAttachFailed(response.status());
  TaskLink ready = link;
  ready.task = response->task();
  uint64_t generation;
  bool replaced = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    replaced = reported_ && link_.task.incarnation() != ready.task.incarnation();
    serving_ = reported_ = true;
    link_ = ready;
    backoff_ = kBackoffMin;
    failed_attempts_ = 0;
    generation = ++generation_;
  }
  if (replaced) options_.on_lost(absl::UnavailableError("the process was restarted"));
  Log(LogLevel::kInfo, "task_attached",
      {{"task", TaskName(ready.task)}, {"address", ready.address}});
  options_.on_ready(ready);
  Watch(generation);
}

void TaskConnection::OnAttachFailed(const absl::Status& error) {
  absl::Duration wait;
  bool lost = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    last_error_ = error;
    wait = backoff_;
    backoff_ = std::min(backoff_ * 2, kBackoffMax);
    lost = reported_ && ++failed_attempts_ >= kFailedAttemptsMax;
    if (lost) reported_ = false;
  }
  if (lost) options_.on_lost(error);
  world_.clock.CallAt(world_.clock.Now() + wait, [self = shared_from_this()] {
    {
      MutexLock lock(self->mutex_);
      if (self->stopped_) return;
    }
    self->Attach();
  });
}

void TaskConnection::Watch(uint64_t generation) {
  std::shared_ptr<Channel> control;
  {
    MutexLock lock(mutex_);
    if (stopped_ || !serving_ || generation_ != generation) return;
    control = link_.control;
  }
  Envelope<proto::WatchRequest> request;
  request.header.set_epoch(options_.attach.epoch());
  request.header.set_known_state(proto::SERVING);
  request.header.set_max_wait_ms(absl::ToInt64Milliseconds(options_.lease));
  StartCall<proto::WatchResponse>(
      *control, kWatch, std::move(request), options_.lease * 2,
      [self = shared_from_this(), generation](
          absl::StatusOr<Envelope<proto::WatchResponse>> response) {
        if (!response.ok()) return self->OnWatched(generation, response.status());
        self->OnWatched(generation, response->header);
      });
}

void TaskConnection::OnWatched(uint64_t generation,
                               absl::StatusOr<proto::WatchResponse> response) {
  if (!response.ok()) return Lose(generation, response.status(), Certainty::kSuspected);
  if (response->state() != proto::SERVING) {
    return Lose(generation, absl::UnavailableError("the task is shutting down"), Certainty::kGone);
  }
  Watch(generation);
}

void TaskConnection::Lose(uint64_t generation, const absl::Status& cause, Certainty certainty) {
  proto::TaskRef task;
  {
    MutexLock lock(mutex_);
    if (stopped_ || !serving_ || generation_ != generation) return;
    serving_ = false;
    last_error_ = cause;
    task = link_.task;
    if (certainty == Certainty::kGone) reported_ = false;
  }
  Log(LogLevel::kWarning, certainty == Certainty::kGone ? "task_gone" : "task_suspected",
      {{"task", TaskName(task)}, {"cause", cause.message()}});
  if (certainty == Certainty::kGone) options_.on_lost(cause);
  Attach();
}

}  // namespace cohort
