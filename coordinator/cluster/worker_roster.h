#pragma once

// The members of the job: its parameter servers, which stay, and its workers, which come and go
// within two limits. A worker has a task index, which is its name, and a position, counted from 0,
// which programs and data sets see. The first workers get positions in the order of their indices.
// A later worker gets the lowest free position, and no position ever changes.

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

struct WorkerLimits {
  int min = 1;
  int max = std::numeric_limits<int>::max();
  // The strategy.type that limits `max`; empty: the limit is cluster.max_workers.
  std::string max_of_strategy = {};
  // Checks that a job with `workers` workers may have one more. Errors: FAILED_PRECONDITION naming
  // the limit.
  absl::Status CheckHasRoom(size_t workers) const;
};

struct Member {
  std::string address;  // the member's address; empty: call ClusterOptions.address
  int position = 0;     // position of a worker, which programs and data sets see
  bool added = false;   // whether the worker was added after the job began
};

// The list of the job's members with their addresses and positions. Thread-compatible.
class WorkerRoster {
 public:
  // Begins with the ps and workers of the spec; evaluators and the coordinator are not members.
  WorkerRoster(const ClusterSpec& spec, WorkerLimits limits);

  // Adds a worker. Errors: INVALID_ARGUMENT for a task that is not a worker; ALREADY_EXISTS when
  // the task or the address belongs to a member already; FAILED_PRECONDITION when the job has the
  // maximum number of workers.
  absl::Status Add(TaskId task, std::string address);
  // Removes a worker. Errors: INVALID_ARGUMENT for a task that is not a worker; NOT_FOUND naming
  // the workers; FAILED_PRECONDITION when the job has the minimum number of workers.
  absl::Status Remove(TaskId task);
  // Changes the address of a member; does nothing for any other task.
  void Move(TaskId task, std::string address);

  const std::map<TaskId, Member>& members() const { return members_; }
  // Returns the member, or nullptr for a task that is not a member.
  const Member* Find(TaskId task) const;
  // Returns the members of a role in ascending order of their indices.
  std::vector<TaskId> Tasks(Role role) const;
  const WorkerLimits& limits() const { return limits_; }

 private:
  int FreePosition() const;

  const WorkerLimits limits_;
  std::map<TaskId, Member> members_;
};

}  // namespace cohort
