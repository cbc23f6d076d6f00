#pragma once

// The members of the job: its parameter servers, which stay, and its workers, which come and go
// within two limits. A worker has two numbers: a task index, which is part of its name, and a
// position, which programs and data sets see. Positions count from 0. The workers that are there at
// the beginning get positions in the order of their indices. A worker that is added later gets the
// lowest free position. The position of a worker never changes.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/cluster/worker_limits.h"

namespace cohort {

struct Member {
  std::string address;  // the member's address; if empty, ClusterOptions.address knows it
  int position = 0;     // the worker's position, as programs see it
  bool added = false;   // whether the worker was added after the job's beginning
};

// The list of the job's members with their addresses and positions. Thread-compatible.
class WorkerRoster {
 public:
  // Makes a roster with the ps and workers of the spec. Evaluators and the coordinator are not
  // members.
  WorkerRoster(const ClusterSpec& spec, WorkerLimits limits);

  // Adds a worker. Errors: INVALID_ARGUMENT if the task is not a worker; ALREADY_EXISTS if the task
  // is a member already, or if the address belongs to a member; FAILED_PRECONDITION if the job has
  // as many workers as it may have.
  absl::Status Add(TaskId task, std::string address);
  // Removes a worker. Errors: INVALID_ARGUMENT if the task is not a worker; NOT_FOUND, naming the
  // job's workers, if it is not a member; FAILED_PRECONDITION if the job has no more workers than
  // it must have.
  absl::Status Remove(TaskId task);
  // Changes the address of a member. Does nothing if the task is not a member.
  void Move(TaskId task, std::string address);

  const std::map<TaskId, Member>& members() const { return members_; }
  // Returns the member, or nullptr if the task is not a member.
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
