#pragma once

// The hold on a task: the coordinator to which it granted its epoch, and whether another job may
// have it. Epochs count from 1 and only grow: a lower one, or the held one from another coordinator
// incarnation, is STALE. A job is its name with the fingerprint of its settings. The same job takes
// over from itself at once: its coordinator was started again. Another job has to wait until the
// holder has released the task or was silent for its lease, unless it is told to take over.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/task.pb.h"

namespace cohort {

inline constexpr absl::Duration kDefaultLease = absl::Seconds(5);

// An epoch, and the one coordinator that may hold it.
struct EpochGrant {
  uint64_t epoch = 0;  // 0: none
  uint64_t coordinator_incarnation = 0;
  proto::JobRef job;
  absl::Duration lease = kDefaultLease;  // the task is kept so long for a silent coordinator
};

bool SameJob(const proto::JobRef& a, const proto::JobRef& b);
// Returns "job 'mnist'".
std::string JobName(const proto::JobRef& job);

// Thread-compatible.
class TaskHold {
 public:
  // Begins with what an earlier start of the task granted; that holder has its lease from `now` on.
  TaskHold(EpochGrant granted, absl::Time now);

  const EpochGrant& grant() const { return grant_; }
  bool IsHeldBy(const EpochGrant& wanted) const;
  enum class Manner { kIfFree, kTakeOver };
  // Checks whether `wanted` may be granted. Errors: FAILED_PRECONDITION of class CONFIGURATION
  // naming the job for which the task is kept; of class STALE naming the holder.
  absl::Status Check(const EpochGrant& wanted, Manner manner, absl::Time now) const;
  void Grant(EpochGrant wanted, absl::Time now);
  // Counts a call of the holder, with which its lease begins anew.
  void Hear(absl::Time now);
  // Notes that the holder wants the task no more.
  void Release() { released_ = true; }

  // Returns how much longer no other job may have the task.
  absl::Duration Kept(absl::Time now) const;
  uint64_t heard() const { return heard_; }
  // Returns "coordinator incarnation 7 of job 'mnist'".
  std::string Holder() const;

 private:
  EpochGrant grant_;
  absl::Time heard_at_;
  uint64_t heard_ = 0;
  bool released_ = false;
};

}  // namespace cohort
