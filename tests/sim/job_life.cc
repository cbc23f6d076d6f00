#include "tests/sim/job_life.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"

namespace cohort {

bool JobLife::LifeWaiter::Wait(const Event& event, absl::Duration timeout) {
  life_.WaitFor([&] { return event.HasHappened(); }, timeout);
  return event.HasHappened() && !life_.killed_;
}

JobLife::JobLife(World world, SimActors& actors, const JobPlan& plan, Options options)
    : world_(world),
      actors_(actors),
      plan_(plan),
      options_(std::move(options)),
      waiter_(*this),
      rng_(options_.incarnation) {}

JobLife::~JobLife() = default;

JobLife::End JobLife::EndOf(const absl::Status& error) const {
  if (killed_) return End::kKilled;
  if (error.ok()) return End::kFinished;
  return ClassOf(error) == proto::STALE ? End::kSuperseded : End::kFailed;
}

void JobLife::Run() {
  error_ = Live();
  options_.note(absl::StrCat(options_.host, " ends: ", error_.ToString()));
  // As the program does; the tasks are another coordinator's by now, so that none must end.
  if (EndOf(error_) == End::kSuperseded && coordinator_ != nullptr) {
    coordinator_->Leave(Farewell::kShutDown).IgnoreError();
  }
  coordinator_.reset();
  end_ = EndOf(error_);
}

absl::Status JobLife::Live() {
  RETURN_IF_ERROR(Annotate(Start(), "start"));
  RETURN_IF_ERROR(DoItems());
  return Annotate(Finish(), "finish");
}

ClusterCoordinator::Options JobLife::CoordinatorOptions() const {
  ClusterCoordinator::Options options;
  options.cluster = options_.cluster;
  options.settings = 1;  // the next life is of the same job
  options.attempts_max = options.quarantine_after = 1000;
  options.queue_bound = plan_.queue_bound;
  options.closures_in_flight = plan_.closures_in_flight;
  options.redo_max = plan_.redo_max;
  options.lease = plan_.lease;
  options.call_timeout = plan_.lease * 4;
  options.incarnation = options_.incarnation;
  options.recovery_directory = options_.directory;
  options.checkpoint_chunk_bytes = plan_.chunk_bytes;
  options.recovery_interval = plan_.recovery_interval;
  options.slice_bytes_max = plan_.slice_bytes_max;
  return options;
}

absl::Status JobLife::Connect(ClusterCoordinator::Options options) {
  ASSIGN_OR_RETURN(coordinator_, ClusterCoordinator::Connect(world_, waiter_, std::move(options)));
  return absl::OkStatus();
}

void JobLife::SkipTo(uint64_t next) {
  if (coordinator_->NextId().value < next) coordinator_->SkipTo(ClosureId{next});
}

void JobLife::WaitFor(const std::function<bool()>& holds, absl::Duration timeout) {
  actors_.Wait([&] { return IsOver() || holds(); }, timeout);
}

void JobLife::KeepPace(uint32_t milliseconds_max) {
  if (milliseconds_max == 0) return;
  WaitFor([] { return false; }, absl::Milliseconds(rng_.Below(milliseconds_max)));
}

absl::Status JobLife::Disturb() {
  const uint64_t draw = rng_.Below(40);
  if (draw == 0) return coordinator_->Done().status();
  if (draw == 1) return JoinAll();
  if (draw == 2) {
    const absl::Status joined = coordinator_->Join(absl::Milliseconds(rng_.Below(50)));
    return absl::IsDeadlineExceeded(joined) && !IsOver() ? absl::OkStatus() : joined;
  }
  if (draw == 3) return FetchOne();
  return absl::OkStatus();
}

absl::Status JobLife::CheckJoined(absl::Status joined) {
  options_.note(absl::StrCat(options_.host, " joins: ", joined.ToString()));
  RETURN_IF_ERROR(joined);
  const Scheduler::Stats stats = coordinator_->stats();
  if (stats.queued + stats.in_flight > 0) {
    options_.violate(absl::StrCat("Join returned with ", stats.ToString()));
  }
  return absl::OkStatus();
}

void JobLife::CheckNextId(uint64_t closure, uint64_t ids) {
  const uint64_t next = coordinator_->NextId().value;
  if (next == closure + ids) return;
  options_.violate(absl::StrCat("closure ", closure, " was scheduled, and the next id is ", next));
}

namespace {

// While its closures end it is still leaving, and cannot be added.
void AddAgain(Clock& clock, const std::weak_ptr<Cluster>& members, TaskId worker,
              const std::string& address, absl::Duration delay) {
  clock.CallAt(clock.Now() + delay, [&clock, members, worker, address] {
    const auto cluster = members.lock();
    if (cluster == nullptr) return;
    if (!absl::IsFailedPrecondition(cluster->AddWorker(worker, address))) return;
    AddAgain(clock, members, worker, address, absl::Milliseconds(50));
  });
}

}  // namespace

bool JobLife::RemoveWorker(const std::string& host, absl::Duration absence) {
  if (coordinator_ == nullptr || IsOver()) return false;
  const std::shared_ptr<Cluster> members = coordinator_->parts().cluster;
  for (const Cluster::TaskStatus& member : members->TaskStatuses()) {
    if (member.task.ToString() != host || member.leaving) continue;
    // A refusal comes at once.
    const auto refused = std::make_shared<bool>(false);
    members->RemoveWorker(member.task, Farewell::kKeep,
                          [refused](const absl::Status& status) { *refused = !status.ok(); });
    if (*refused) return false;
    if (absence == absl::InfiniteDuration()) {
      removed_.push_back(member);
    } else {
      AddAgain(world_.clock, members, member.task, member.address, absence);
    }
    return true;
  }
  return false;
}

void JobLife::AddRemoved() {
  if (coordinator_ == nullptr) return;
  for (const Cluster::TaskStatus& member : std::exchange(removed_, {})) {
    AddAgain(world_.clock, coordinator_->parts().cluster, member.task, member.address,
             absl::ZeroDuration());
  }
}

void JobLife::CheckBounds() {
  if (coordinator_ == nullptr) return;
  const Scheduler::Stats stats = coordinator_->stats();
  // A restore queues closures again that were done: they come on top of the bound.
  if (stats.recoveries <= 1 && stats.queued + stats.in_flight > plan_.queue_bound) {
    options_.violate(
        absl::StrCat("the queue's bound is ", plan_.queue_bound, ": ", stats.ToString()));
  }
}

uint64_t JobLife::NumEnded() const {
  if (coordinator_ == nullptr) return 0;
  const Scheduler::Stats stats = coordinator_->stats();
  return stats.done + stats.replayed + stats.failed;
}

bool JobLife::IsHeardOf(TaskId task) const {
  return coordinator_ == nullptr || coordinator_->parts().cluster->IsReached(task);
}

std::string JobLife::DescribeWait() const {
  if (coordinator_ == nullptr) {
    return absl::StrCat(options_.host, " does not run: ", error_.ToString());
  }
  return absl::StrCat(options_.host, ": ", coordinator_->parts().scheduler->DescribeWait(), "; ",
                      coordinator_->ClusterReport());
}

}  // namespace cohort
