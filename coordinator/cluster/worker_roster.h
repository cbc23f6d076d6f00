#pragma once

// The members of the job: its parameter servers, which stay, and its workers, which come and go
// within two limits. A worker has a task index, which is its name, and a position, from 0, which
// programs and data sets see. The positions of the first workers follow their indices; a later one
// gets the lowest free position, and no position ever changes.

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
  // The strategy.type that limits `max`; empty: cluster.max_workers does.
  std::string max_of_strategy = {};
  // Returns FAILED_PRECONDITION naming the limit if a job with so many workers takes no more.
  absl::Status CheckHasRoom(size_t workers) const;
};

struct Member {
  std::string address;  // empty: whoever started the task knows it
  int position = 0;     // a worker's
  bool added = false;   // came after the job began
};

// An address where nobody listens: a call fails at once.
inline constexpr char kNowhere[] = "127.0.0.1:1";

// Thread-compatible.
class WorkerRoster {
 public:
  // Takes ps and workers of the spec; evaluators and the coordinator are no members.
  WorkerRoster(const ClusterSpec& spec, WorkerLimits limits);

  // Errors: INVALID_ARGUMENT for a task that is no worker; ALREADY_EXISTS when the task is a member
  // or the address is one's; FAILED_PRECONDITION when there are as many workers as may be.
  absl::Status Add(TaskId task, std::string address);
  // Errors: INVALID_ARGUMENT for a task that is no worker; NOT_FOUND naming the workers;
  // FAILED_PRECONDITION when there are as few workers as must be.
  absl::Status Remove(TaskId task);
  // Moves the member to another address.
  void Move(TaskId task, std::string address);

  const std::map<TaskId, Member>& members() const { return members_; }
  // Returns nullptr for a task that is not a member.
  const Member* Find(TaskId task) const;
  // Returns tasks in ascending order.
  std::vector<TaskId> Tasks(Role role) const;
  const WorkerLimits& limits() const { return limits_; }

 private:
  int FreePosition() const;

  const WorkerLimits limits_;
  std::map<TaskId, Member> members_;
};

}  // namespace cohort
