#pragma once

// Adds workers to a running job and removes them, for operators (ctl_service.h) and for a
// membership list (membership_watch.h). A worker is asked for its task index before it is added, so
// an operator needs to name only its address.

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

// Adds and removes the workers of one job. Thread-safe. Shared: its open calls hold it.
class WorkerChanges : public std::enable_shared_from_this<WorkerChanges> {
 public:
  struct Options {
    Farewell farewell = Farewell::kShutDown;
    absl::Duration call_timeout = absl::Seconds(5);
    // Starts a local worker process under an index that is not in `taken`, and returns its task;
    // must not block. Null: the coordinator does not start tasks itself.
    std::function<absl::StatusOr<TaskId>(const std::set<int>& taken)> start_local;
    // Stops the process of a worker that was removed. Does nothing for a task that is not a local
    // child.
    std::function<void(TaskId)> stop_local;
  };
  struct Added {
    TaskId task;
    bool was_member = false;
  };

  static std::shared_ptr<WorkerChanges> Create(World world, std::shared_ptr<Cluster> cluster,
                                               Options options);

  // Adds the worker that listens at `address`. If the worker is already a member but does not
  // serve, only changes its address. Errors: INVALID_ARGUMENT for text that is not an address or a
  // task that is not a worker; NOT_FOUND if nothing answers; FAILED_PRECONDITION for a worker of
  // another coordinator; those of Cluster::AddWorker.
  void Add(std::string address, absl::AnyInvocable<void(absl::StatusOr<Added>)> done);
  // Starts a local worker process and adds it as a worker. Errors: FAILED_PRECONDITION if this job
  // has no local tasks; those of starting the worker.
  absl::StatusOr<Added> AddLocal();
  // Removes a worker as Cluster::RemoveWorker does, and then stops its process if it is a local
  // child.
  void Remove(TaskId task, absl::AnyInvocable<void(absl::Status)> done);

 private:
  WorkerChanges(World world, std::shared_ptr<Cluster> cluster, Options options);
  absl::StatusOr<Added> Take(const std::string& address, const proto::GetStatusResponse& answer);
  absl::Status CheckIsFree(const std::string& address,
                           const proto::GetStatusResponse& answer) const;

  const World world_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  const Options options_;
};

}  // namespace cohort
