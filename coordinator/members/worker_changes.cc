#include "coordinator/members/worker_changes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/task/task_hold.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"

namespace cohort {

namespace {

// Checks that `address` is an address that can be called, and so has no port 0.
absl::Status CheckCanBeDialed(const std::string& address) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  if (!parsed.unix_path.empty() || parsed.port != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", address, "' has port 0: name the port that the worker listens at"));
}

}  // namespace

std::shared_ptr<WorkerChanges> WorkerChanges::Create(World world, std::shared_ptr<Cluster> cluster,
                                                     Options options) {
  return std::shared_ptr<WorkerChanges>(
      new WorkerChanges(world, std::move(cluster), std::move(options)));
}

WorkerChanges::WorkerChanges(World world, std::shared_ptr<Cluster> cluster, Options options)
    : world_(world), cluster_(std::move(cluster)), options_(std::move(options)) {}

void WorkerChanges::Add(std::string address, absl::AnyInvocable<void(absl::StatusOr<Added>)> done) {
  if (const absl::Status status = CheckCanBeDialed(address); !status.ok()) return done(status);
  const std::shared_ptr<Channel> channel = world_.transport.Connect(address, Lane::kControl);
  StartCall<proto::GetStatusResponse>(
      *channel, "/cohort.proto.TaskService/GetStatus", Envelope<proto::GetStatusRequest>(),
      options_.call_timeout,
      [self = shared_from_this(), channel, address, done = std::move(done)](
          const absl::StatusOr<Envelope<proto::GetStatusResponse>>& answer) mutable {
        if (!answer.ok()) {
          return done(absl::NotFoundError(
              absl::StrCat("no worker answers at ", address, ": ", answer.status().message())));
        }
        done(self->Take(address, answer->header));
      });
}

absl::Status WorkerChanges::CheckIsFree(const std::string& address,
                                        const proto::GetStatusResponse& answer) const {
  if (answer.state() != proto::SERVING) {
    return absl::FailedPreconditionError(
        absl::StrCat(TaskName(answer.task()), " at ", address, " is about to end"));
  }
  const CoordinatorIdentity& self = cluster_->self();
  const bool held = answer.epoch() > 0 && answer.coordinator_incarnation() != self.incarnation;
  // A worker may be taken from another coordinator if it is held for this same job or is not held
  // any more, and if its epoch is lower than this coordinator's. Otherwise it would refuse this
  // coordinator.
  const bool ours = SameJob(answer.job(), self.job) || answer.kept_ms() == 0;
  if (!held || (ours && answer.epoch() < cluster_->epoch())) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      TaskName(answer.task()), " at ", address, " belongs to ", JobName(answer.job()),
      " of another coordinator (epoch ", answer.epoch(), "): remove it there, or start it again"));
}

absl::StatusOr<WorkerChanges::Added> WorkerChanges::Take(const std::string& address,
                                                         const proto::GetStatusResponse& answer) {
  if (answer.task().role() != RoleName(Role::kWorker)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "at ", address, " answers ", TaskName(answer.task()), ", which is not a worker"));
  }
  const TaskId task{Role::kWorker, static_cast<int>(answer.task().index())};
  for (const Cluster::TaskStatus& member : cluster_->TaskStatuses()) {
    if (!(member.task == task) || member.leaving) continue;
    const bool same = member.serving && member.incarnation == answer.task().incarnation();
    // Nothing is to be done if this process is a member that serves, or if the member has this
    // address: then its connection will attach it.
    if (same || member.address == address) return Added{task, true};
  }
  RETURN_IF_ERROR(CheckIsFree(address, answer));
  // If the worker is a member that does not serve, it has moved to this address from another one.
  if (cluster_->MoveWorker(task, address)) return Added{task, true};
  RETURN_IF_ERROR(cluster_->AddWorker(task, address));
  return Added{task, false};
}

absl::StatusOr<WorkerChanges::Added> WorkerChanges::AddLocal() {
  if (!options_.start_local) {
    return absl::FailedPreconditionError(
        "this job's tasks are started by others: start a worker and name its HOST:PORT");
  }
  // A worker that is being removed keeps its index, but does not count towards the limit of
  // workers.
  std::set<int> taken;
  size_t workers = 0;
  for (const Cluster::TaskStatus& member : cluster_->TaskStatuses()) {
    if (member.task.role != Role::kWorker) continue;
    taken.insert(member.task.index);
    workers += member.leaving ? 0 : 1;
  }
  const absl::Status room = cluster_->limits().CheckHasRoom(workers);
  if (!room.ok()) return Annotate(room, "no worker can be added");
  ASSIGN_OR_RETURN(const TaskId task, options_.start_local(taken));
  const absl::Status added = cluster_->AddWorker(task, "");
  if (!added.ok()) {
    options_.stop_local(task);  // another worker has got this index meanwhile
    return added;
  }
  return Added{task, false};
}

void WorkerChanges::Remove(TaskId task, absl::AnyInvocable<void(absl::Status)> done) {
  cluster_->RemoveWorker(
      task, options_.farewell,
      [self = shared_from_this(), task, done = std::move(done)](absl::Status status) mutable {
        // No closure is in flight on the worker any more, so its process can be stopped.
        if (status.ok() && self->options_.stop_local) self->options_.stop_local(task);
        done(std::move(status));
      });
}

}  // namespace cohort
