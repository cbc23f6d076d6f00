#include "ps_server/ps_task.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/grant_file.h"

namespace cohort {

PsTask::PsTask(World world, Options options)
    : world_(world), options_(std::move(options)), push_gate_(std::make_shared<PushGate>()) {
  TaskOptions task_options = options_;
  task_options.memory_bytes = options_.resident_bytes_max;
  // The push gate must know the new epoch before the attaching coordinator makes its first call.
  task_options.on_attach = [gate = push_gate_](const proto::AttachRequest& request) {
    gate->StartEpoch(request.epoch(), request.coordinator_incarnation());
  };
  if (!options_.grant_file.empty()) {
    // The grant of an epoch is written to disk before the coordinator gets its answer, so a
    // restarted server remembers every grant.
    task_options.on_grant = [&files = world_.files, path = options_.grant_file](
                                const EpochGrant& grant) { return WriteGrant(files, path, grant); };
  }
  task_service_ = std::make_shared<TaskService>(world_, std::move(task_options));
  ps_service_ = std::make_shared<PsService>(
      world_,
      PsService::Parts{task_service_, push_gate_,
                       std::make_shared<ByteBudget>(options_.receive_bytes_max),
                       std::make_shared<ByteBudget>(options_.send_bytes_max)},
      VariableStore::Options{static_cast<uint32_t>(options_.task.index),
                             options_.resident_bytes_max});
}

PsTask::~PsTask() {
  // The network server is destroyed first, so that no new call arrives while the services stop.
  server_.reset();
  // An open Watch call and the services keep each other alive. Stop() ends the Watch call, so that
  // the services can be destroyed.
  task_service_->Stop();
}

absl::StatusOr<std::string> PsTask::Start() {
  COHORT_CHECK(server_ == nullptr, "a task starts once");
  std::vector<Service> services;
  services.push_back(task_service_->service());
  services.push_back(ps_service_->service());
  ASSIGN_OR_RETURN(server_, world_.transport.Listen(options_.listen_address, std::move(services)));
  return server_->address();
}

void PsTask::StartLeaving(absl::Duration patience) { task_service_->StartLeaving(patience); }

void PsTask::Drain(absl::Duration grace) {
  const absl::Time end = world_.clock.Now() + grace;
  StartLeaving(grace * kLeavePart);
  // Most of `grace` is spent waiting for the coordinator's Shutdown call, and the rest waiting for
  // open calls to end.
  task_service_->WaitToLeave(grace * kLeavePart);
  if (server_) server_->Drain(end - world_.clock.Now());
}

}  // namespace cohort
