#include "coordinator/cluster/task_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/farewell.h"

namespace cohort {

namespace {
constexpr char kAttach[] = "/cohort.proto.TaskService/Attach";
constexpr char kWatch[] = "/cohort.proto.TaskService/Watch";
constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(1);
// A single broken call does not prove that a task is dead. A suspected task is lost after this
// number of refused attempts to attach it again.
constexpr int kRefusedAttemptsMax = 4;
// Fractions of the lease:
//   kWatchPart    a task answers a Watch call at least this often
//   kSilentPart   after this time without an answer, a task is reported as silent
//   kSuspectPart  after this time without an answer to a Watch call, a task is a suspect
//   kProbePart    a suspect is asked again at this interval, even if earlier attempts are
//   unanswered kGracePart    a suspect has at least this time to answer, even if the coordinator
//   itself was
//                 stopped for longer than a lease
constexpr double kWatchPart = 0.1;
constexpr double kSilentPart = 0.12;
constexpr double kSuspectPart = 0.35;
constexpr double kProbePart = 0.1;
constexpr double kGracePart = 0.1;
// The time limit of one attempt to attach a task that is not serving, as a fraction of the lease.
constexpr double kAttachPart = 0.15;
}  // namespace

absl::Status CheckListens(const std::string& address) {
  if (address != kNowhere) return absl::OkStatus();
  return absl::UnavailableError("its process does not listen yet");
}

absl::Status CheckAnswers(TaskId task, const std::string& address, const proto::TaskRef& answers) {
  if (answers.role() == RoleName(task.role) && answers.index() == task.index) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("at ", address, " answers ", TaskName(answers),
                                                    ", not ", task.ToString(),
                                                    ": check the addresses in TF_CONFIG"));
}

std::shared_ptr<TaskConnection> TaskConnection::Create(World world, Options options) {
  return std::shared_ptr<TaskConnection>(new TaskConnection(world, std::move(options)));
}

TaskConnection::TaskConnection(World world, Options options)
    : world_(world), options_(std::move(options)), backoff_(kBackoffMin) {}

void TaskConnection::Renew(proto::AttachRequest attach) {
  {
    MutexLock lock(mutex_);
    // An attach request with an older epoch than the last request is ignored.
    if (attach.epoch() < attach_.epoch()) return;
  }
  Suspend();
  uint64_t round = 0;
  {
    MutexLock lock(mutex_);
    attach_ = std::move(attach);
    backoff_ = kBackoffMin;
    round = round_;
  }
  Attach(round);
}

void TaskConnection::Suspend() {
  MutexLock lock(mutex_);
  // Calls made before this point carry an older round or generation, so their answers no longer
  // count.
  ++round_;
  ++generation_;
  serving_ = reported_ = false;
}

void TaskConnection::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
}

void TaskConnection::Suspect(uint64_t incarnation, const absl::Status& cause) {
  uint64_t generation;
  {
    MutexLock lock(mutex_);
    // A failed call to an earlier process of the task says nothing about its present process.
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

absl::Duration TaskConnection::silence() const {
  MutexLock lock(mutex_);
  // A suspect was not reported as lost, so its silence is finite.
  if (!serving_ && !reported_) return absl::InfiniteDuration();
  const absl::Duration silence = world_.clock.Now() - last_contact_;
  return silence > options_.lease * kSilentPart ? silence : absl::ZeroDuration();
}

void TaskConnection::Attach(uint64_t round) {
  proto::AttachRequest request;
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_) return;
    request = attach_;
  }
  SendAttach(round, std::move(request), options_.lease * kAttachPart,
             &TaskConnection::OnAttachFailed);
}

void TaskConnection::SendAttach(uint64_t round, proto::AttachRequest request,
                                absl::Duration timeout, OnFailure on_failure) {
  TaskLink link;
  link.address = options_.address();
  // A call to a process that does not listen yet would fail as well, with an error that names an
  // address which nobody has given.
  if (const absl::Status listens = CheckListens(link.address); !listens.ok()) {
    return (this->*on_failure)(round, listens);
  }
  link.control = world_.transport.Connect(link.address, Lane::kControl);
  link.data = world_.transport.Connect(link.address, Lane::kData);
  Channel& control = *link.control;
  StartCall<proto::AttachResponse>(
      control, kAttach, Envelope<proto::AttachRequest>{std::move(request), {}}, timeout,
      [self = shared_from_this(), round, on_failure,
       link = std::move(link)](absl::StatusOr<Envelope<proto::AttachResponse>> response) mutable {
        absl::Status status = response.status();
        if (status.ok()) {
          status = CheckAnswers(self->options_.task, link.address, response->header.task());
        }
        // If another task answers at the address, the attempt has failed and is repeated: the
        // addresses of tasks may still change.
        if (!status.ok()) return (*self.*on_failure)(round, status);
        link.task = response->header.task();
        link.memory_bytes = response->header.memory_bytes();
        self->OnAttached(round, link);
      });
}

void TaskConnection::OnAttached(uint64_t round, const TaskLink& link) {
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_) return;  // another attempt was answered first
    // If the process was replaced while it was a suspect, on_lost has not run for it yet.
    const bool replaced = reported_ && link_.task.incarnation() != link.task.incarnation();
    serving_ = reported_ = true;
    link_ = link;
    reach_ = 0;
    backoff_ = kBackoffMin;
    refused_attempts_ = 0;
    last_contact_ = world_.clock.Now();
    const uint64_t generation = ++generation_;
    // The Watch call is made after on_ready has returned, so on_lost for a later loss cannot run
    // before on_ready.
    TellLocked([this, link, replaced, generation] {
      if (replaced) options_.on_lost(absl::UnavailableError("the process was restarted"));
      Log(LogLevel::kInfo, "task_attached",
          {{"task", TaskName(link.task)}, {"address", link.address}});
      options_.on_ready(link);
      Watch(generation);
    });
  }
  TellAll();
}

void TaskConnection::TellLocked(News news) { news_.emplace_back(round_, std::move(news)); }

void TaskConnection::TellAll() {
  const auto self = shared_from_this();
  for (bool first = true;; first = false) {
    News next;
    {
      MutexLock lock(mutex_);
      if (first && telling_) return;
      // After Renew, Suspend or Stop, callbacks that have not run yet are dropped.
      while (!news_.empty() && (stopped_ || news_.front().first != round_)) news_.pop_front();
      telling_ = !news_.empty();
      if (news_.empty()) return;
      next = std::move(news_.front().second);
      news_.pop_front();
    }
    next();
  }
}

void TaskConnection::OnAttachFailed(uint64_t round, const absl::Status& error) {
  const bool superseded = ClassOf(error) == proto::STALE && options_.on_superseded;
  absl::Duration wait;
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_) return;
    last_error_ = error;
    wait = backoff_;
    backoff_ = std::min(backoff_ * 2, kBackoffMax);
  }
  if (superseded) options_.on_superseded(error);
  world_.clock.CallAt(world_.clock.Now() + wait,
                      [self = shared_from_this(), round] { self->Attach(round); });
}

void TaskConnection::Probe(uint64_t round) {
  const absl::Time now = world_.clock.Now();
  proto::AttachRequest request;
  absl::Time next;
  absl::Time until;
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_ || !reported_) return;
    request = attach_;
    until = suspect_until_;
    next = std::min(now + backoff_, until);
    backoff_ = std::min(backoff_ * 2, options_.lease * kProbePart);
  }
  // Probes are made at intervals, without waiting for answers. So a task that does not answer at
  // all is still declared lost in time.
  if (now >= until) return DeclareLost(round);
  SendAttach(round, std::move(request), until - now, &TaskConnection::OnProbeFailed);
  world_.clock.CallAt(next, [self = shared_from_this(), round] { self->Probe(round); });
}

void TaskConnection::OnProbeFailed(uint64_t round, const absl::Status& error) {
  // STALE means that another coordinator holds the task. The task is not lost, but this coordinator
  // has lost its job.
  const bool superseded = ClassOf(error) == proto::STALE && options_.on_superseded;
  bool lost = false;
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_ || !reported_) return;
    last_error_ = error;
    // Only refused calls count. A task that does not answer may be slow, and has time until the end
    // of its lease.
    const bool refused = !absl::IsDeadlineExceeded(error);
    lost = !superseded && refused && ++refused_attempts_ >= kRefusedAttemptsMax;
  }
  if (superseded) options_.on_superseded(error);
  if (lost) DeclareLost(round);
}

void TaskConnection::DeclareLost(uint64_t round) {
  {
    MutexLock lock(mutex_);
    if (stopped_ || round != round_ || serving_ || !reported_) return;
    reported_ = false;
    backoff_ = kBackoffMin;
    // Attach() is called after on_lost has returned, so on_ready cannot run before on_lost.
    TellLocked([this, round, cause = last_error_] {
      options_.on_lost(cause);
      Attach(round);
    });
  }
  TellAll();
}

void TaskConnection::Watch(uint64_t generation) {
  std::shared_ptr<Channel> control;
  Envelope<proto::WatchRequest> request;
  {
    MutexLock lock(mutex_);
    if (stopped_ || !serving_ || generation_ != generation) return;
    control = link_.control;
    request.header.set_epoch(attach_.epoch());
    request.header.set_known_state(leaving_ == generation ? proto::DRAINING : proto::SERVING);
    request.header.set_known_reach(reach_);
  }
  // The callback unreached_by is called without the lock, because it takes another lock.
  if (options_.unreached_by) {
    for (proto::TaskRef& peer : options_.unreached_by()) {
      *request.header.add_unreached_by() = std::move(peer);
    }
  }
  // The task answers the Watch call when its state changes, or at the latest after this time.
  request.header.set_max_wait_ms(absl::ToInt64Milliseconds(options_.lease * kWatchPart));
  StartCall<proto::WatchResponse>(
      *control, kWatch, std::move(request), options_.lease * kSuspectPart,
      [self = shared_from_this(),
       generation](absl::StatusOr<Envelope<proto::WatchResponse>> response) {
        if (!response.ok()) return self->OnWatched(generation, response.status());
        self->OnWatched(generation, response->header);
      });
}

void TaskConnection::OnWatched(uint64_t generation, absl::StatusOr<proto::WatchResponse> response) {
  if (!response.ok()) return Lose(generation, response.status(), Certainty::kSuspected);
  if (response->state() != proto::SERVING) {
    const absl::Duration patience = absl::Milliseconds(response->leaves_in_ms());
    // The task is lost now if it ends at once, or if there is no on_leaving callback that could ask
    // it to wait.
    if (!options_.on_leaving || patience <= absl::ZeroDuration()) {
      return Lose(generation, absl::UnavailableError("the task is shutting down"),
                  Certainty::kGone);
    }
    if (BeginLeaving(generation)) {
      Log(LogLevel::kInfo, "task_leaves",
          {{"task", TaskName(response->task())}, {"within", absl::FormatDuration(patience)}});
      options_.on_leaving(patience,
                          [self = shared_from_this(), generation] { self->LetGo(generation); });
    }
  }
  bool changed = false;
  proto::TaskRef task;
  {
    MutexLock lock(mutex_);
    if (generation_ != generation) return;
    last_contact_ = world_.clock.Now();
    task = link_.task;
    changed = std::exchange(reach_, response->reach()) != response->reach();
  }
  if (changed && options_.on_unreached) {
    options_.on_unreached(task, {response->unreached().begin(), response->unreached().end()});
  }
  Watch(generation);
}

bool TaskConnection::BeginLeaving(uint64_t generation) {
  MutexLock lock(mutex_);
  if (stopped_ || !serving_ || generation_ != generation) return false;
  return std::exchange(leaving_, generation) != generation;
}

void TaskConnection::LetGo(uint64_t generation) {
  std::shared_ptr<Channel> control;
  uint64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    if (stopped_ || !serving_ || generation_ != generation) return;
    control = link_.control;
    epoch = attach_.epoch();
  }
  // The task is told that it may end. Its answer is not awaited, because it counts as lost from now
  // on.
  SayFarewell(control, epoch, Farewell::kShutDown, kFarewellTimeout, [](const absl::Status&) {});
  Lose(generation, absl::UnavailableError("the task is shutting down"), Certainty::kGone);
}

void TaskConnection::Lose(uint64_t generation, const absl::Status& cause, Certainty certainty) {
  proto::TaskRef task;
  uint64_t round = 0;
  {
    MutexLock lock(mutex_);
    if (stopped_ || !serving_ || generation_ != generation) return;
    serving_ = false;
    round = round_;
    last_error_ = cause;
    task = link_.task;
    backoff_ = kBackoffMin;
    refused_attempts_ = 0;
    // The lease counts from the task's last answer. If the task has not answered for longer, it
    // gets only a short grace time.
    suspect_until_ =
        std::max(last_contact_ + options_.lease, world_.clock.Now() + options_.lease * kGracePart);
  }
  Log(LogLevel::kWarning, certainty == Certainty::kGone ? "task_gone" : "task_suspected",
      {{"task", TaskName(task)}, {"cause", cause.message()}});
  if (certainty == Certainty::kGone) return DeclareLost(round);
  Probe(round);
}

}  // namespace cohort
