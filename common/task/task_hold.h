#pragma once

// The hold on a task: which coordinator the task has granted its epoch to, and whether another job
// may take the task. Epochs count from 1 and only grow. A lower epoch is STALE, and so is the held
// epoch from another coordinator incarnation. A job is identified by its name and the fingerprint
// of its settings. The holder's own job may take the task over at once, because its coordinator has
// been restarted. Another job must wait until the holder has released the task or has been silent
// for its lease, unless that job is told to take over.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/task.pb.h"

namespace cohort {

inline constexpr absl::Duration kDefaultLease = absl::Seconds(5);

// An epoch, and the one coordinator that may hold the epoch.
struct EpochGrant {
  uint64_t epoch = 0;  // 0 means that no epoch was granted
  uint64_t coordinator_incarnation = 0;
  proto::JobRef job;
  absl::Duration lease = kDefaultLease;  // how long the task is kept for a silent coordinator
};

bool SameJob(const proto::JobRef& a, const proto::JobRef& b);
// Returns text such as "job 'mnist'".
std::string JobName(const proto::JobRef& job);

// The hold on one task. Thread-compatible.
class TaskHold {
 public:
  // Starts with the grant of an earlier start of the task. The holder of that grant gets a new
  // lease, which begins at `now`.
  TaskHold(EpochGrant granted, absl::Time now);

  const EpochGrant& grant() const { return grant_; }
  bool IsHeldBy(const EpochGrant& wanted) const;
  enum class Manner { kIfFree, kTakeOver };
  // Checks whether the epoch `wanted` may be granted. Errors: FAILED_PRECONDITION of class
  // CONFIGURATION that names the job for which the task is kept, or of class STALE that names the
  // holder.
  absl::Status Check(const EpochGrant& wanted, Manner manner, absl::Time now) const;
  void Grant(EpochGrant wanted, absl::Time now);
  // Records a call from the holder, which starts the holder's lease again.
  void Hear(absl::Time now);
  // Records that the holder no longer wants the task.
  void Release() { released_ = true; }

  // Returns for how much longer no other job may take the task.
  absl::Duration Kept(absl::Time now) const;
  uint64_t heard() const { return heard_; }
  // Returns text such as "coordinator incarnation 7 of job 'mnist'".
  std::string Holder() const;

 private:
  EpochGrant grant_;
  absl::Time heard_at_;
  uint64_t heard_ = 0;
  bool released_ = false;
};

}  // namespace cohort
