// Operators and membership lists, beside the training.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "coordinator/daemon/coordinator_daemon.h"
#include "coordinator/members/ctl_service.h"
#include "coordinator/members/membership_source.h"

namespace cohort {

absl::StatusOr<CoordinatorDaemon::Operation> CoordinatorDaemon::Operate(
    ClusterCoordinator& coordinator) {
  WorkerChanges::Options options;
  if (local_ != nullptr) {
    options.start_local = [local = local_](const std::set<int>& taken) {
      return local->AddWorker(taken);
    };
    options.stop_local = [local = local_](TaskId task) { local->RemoveWorker(task); };
  }
  // A local child is stopped by who started it: it would be started again otherwise.
  const bool keep = local_ != nullptr || options_.keep_tasks;
  options.farewell = keep ? Farewell::kKeep : Farewell::kShutDown;
  const auto changes = WorkerChanges::Create(world_, coordinator.members(), std::move(options));
  Operation operation;
  RETURN_IF_ERROR(ServeOperators(coordinator, changes, operation));
  if (!options_.membership.empty()) {
    operation.watch = MembershipWatch::Create(
        world_, MakeMembershipSource(options_.membership, world_.files, resolver_),
        coordinator.members(), changes);
    operation.watch->Start();
  }
  return operation;
}

absl::Status CoordinatorDaemon::ServeOperators(ClusterCoordinator& coordinator,
                                               std::shared_ptr<WorkerChanges> changes,
                                               Operation& operation) {
  if (options_.ctl_address.empty()) return absl::OkStatus();
  const CtlParts parts{options_.job.name, coordinator.members(), coordinator.scheduler(),
                       std::move(changes)};
  absl::StatusOr<std::unique_ptr<Server>> server =
      world_.transport.Listen(options_.ctl_address, {MakeCtlService(parts)});
  if (!server.ok()) {
    const absl::Status error = Annotate(server.status(), "operators cannot be served");
    if (options_.ctl_required) return error;
    // The address of a chief in TF_CONFIG is often one that nobody was meant to dial.
    Log(LogLevel::kWarning, "ctl_unavailable", {{"cause", error.message()}});
    return absl::OkStatus();
  }
  Log(LogLevel::kInfo, "ctl_listening", {{"address", (*server)->address()}});
  operation.ctl = *std::move(server);
  if (options_.ctl_address_file.empty()) return absl::OkStatus();
  RemoveTemporaries(world_.files, options_.ctl_address_file);
  return WriteFileAtomically(world_.files, options_.ctl_address_file,
                             absl::StrCat(operation.ctl->address(), "\n"));
}

}  // namespace cohort
