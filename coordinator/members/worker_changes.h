#pragma once

// Takes workers into a running job and lets them go, for operators (ctl_service.h) and for a
// membership file (membership_watch.h). A worker is asked for its index before it is taken in: the
// worker knows it, and the operator who names an address need not.

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "proto/task.pb.h"

namespace cohort {

// Thread-safe. Shared: its open calls hold it.
class WorkerChanges : public std::enable_shared_from_this<WorkerChanges> {
 public:
  struct Options {
    Farewell farewell = Farewell::kShutDown;
    absl::Duration call_timeout = absl::Seconds(5);
    // Starts a task, if the coordinator does so itself; must not block. `taken` are indices of
    // others.
    std::function<absl::StatusOr<TaskId>(const std::set<int>& taken)> start_local;
    std::function<void(TaskId)> stop_local;  // the worker has left; nothing for another's task
  };
  struct Added {
    TaskId task;
    bool was_member = false;
  };

  static std::shared_ptr<WorkerChanges> Create(World world, std::shared_ptr<Cluster> cluster,
                                               Options options);

  // Adds the worker at an address. A member that does not serve and answers here now has moved.
  // Errors: INVALID_ARGUMENT for text that is not an address or a task that is not a worker;
  // NOT_FOUND if nobody answers; FAILED_PRECONDITION for a worker of another coordinator; those of
  // Cluster::AddWorker.
  void Add(std::string address, absl::AnyInvocable<void(absl::StatusOr<Added>)> done);
  // Starts a worker. Errors: FAILED_PRECONDITION without local tasks; those of the start.
  absl::StatusOr<Added> AddLocal();
  // Removes a worker like Cluster::RemoveWorker.
  void Remove(TaskId task, absl::AnyInvocable<void(absl::Status)> done);

 private:
  WorkerChanges(World world, std::shared_ptr<Cluster> cluster, Options options);
  absl::StatusOr<Added> Take(const std::string& address, const proto::GetStatusResponse& answer);
  absl::Status CheckIsFree(const std::string& address,
                           const proto::GetStatusResponse& answer) const;

  const World world_;
  const std::shared_ptr<Cluster> cluster_;  // shared with the coordinator
  const Options options_;
};

}  // namespace cohort
