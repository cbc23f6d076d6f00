#pragma once

// Adds workers to a running job and removes them, for operators (ctl_service.h) and for a
// membership list (membership_watch.h). A worker that is to be added is asked for its task index,
// so an operator need only know its address.

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

// Adds and removes the workers of one job. Calls under way share its ownership. Thread-safe.
class WorkerChanges : public std::enable_shared_from_this<WorkerChanges> {
 public:
  struct Options {
    Farewell farewell = Farewell::kShutDown;
    absl::Duration call_timeout = absl::Seconds(5);
    // Starts a local worker process and returns its task. The task's index must not be in `taken`.
    // Must not block. If this is null, the job has no local tasks.
    std::function<absl::StatusOr<TaskId>(const std::set<int>& taken)> start_local;
    // Stops the process of a worker that was removed. Does nothing if the task is not a local one.
    std::function<void(TaskId)> stop_local;
  };
  struct Added {
    TaskId task;
    bool was_member = false;
  };

  static std::shared_ptr<WorkerChanges> Create(World world, std::shared_ptr<Cluster> cluster,
                                               Options options);

  // Adds the worker that listens at `address`. If the worker is a member that does not serve, only
  // changes its address. Errors: INVALID_ARGUMENT if the text is not an address, or if the task
  // there is not a worker; NOT_FOUND if nothing answers there; FAILED_PRECONDITION for a worker of
  // another coordinator; those of Cluster::AddWorker.
  void Add(std::string address, absl::AnyInvocable<void(absl::StatusOr<Added>)> done);
  // Starts a local worker process, and adds it to the job. Errors: FAILED_PRECONDITION if the job
  // has no local tasks or as many workers as it may have; those of starting the process; those of
  // Cluster::AddWorker.
  absl::StatusOr<Added> AddLocal();
  // Removes a worker like Cluster::RemoveWorker. If it is a local one, then stops its process.
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
