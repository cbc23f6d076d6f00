#pragma once

// The hold on a task: the coordinator to which the task has granted its epoch, and the conditions
// under which a coordinator of another job may take the task. Epochs count from 1 and only grow. A
// call with a lower epoch than the granted one is STALE, and so is a call with the granted epoch
// from another incarnation of a coordinator. A job is identified by its name and the fingerprint of
// its settings. A coordinator of the holder's own job may take the task at once, because it is the
// holder after a restart. A coordinator of another job must wait until the holder has released the
// task or has been silent for its lease, unless that coordinator was told to take over.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/task.pb.h"

namespace cohort {

inline constexpr absl::Duration kDefaultLease = absl::Seconds(5);

// Upper bound on AttachRequest.coordinator_place: a host name has at most 64 bytes, and two of
// them, an IPv6 address and a process number fit.
inline constexpr size_t kPlaceBytesMax = 256;

// An epoch that a task has granted, and the only coordinator that may use the epoch.
struct EpochGrant {
  uint64_t epoch = 0;  // 0 means that no epoch was granted
  uint64_t coordinator_incarnation = 0;
  proto::JobRef job;
  // How long the task is kept for a coordinator that makes no calls.
  absl::Duration lease = kDefaultLease;
  // Where a user finds the coordinator, for messages; empty if the coordinator has not said where
  // it runs. The grant file does not keep the place, so a restarted task learns it with the next
  // Attach of its coordinator.
  std::string place = {};
};

bool SameJob(const proto::JobRef& a, const proto::JobRef& b);
// Returns text such as "job 'mnist'".
std::string JobName(const proto::JobRef& job);
// Returns the text that adds a coordinator's place to a message: ", process 12 on host a", or "" if
// `place` is empty. The text comes from a peer, so it is escaped, and cut off at kPlaceBytesMax
// bytes.
std::string AtPlace(absl::string_view place);

// The record of which coordinator holds one task. Thread-compatible.
class TaskHold {
 public:
  // Starts with the grant that an earlier process of this task has saved. The coordinator of that
  // grant gets a new lease, which begins at `now`.
  TaskHold(EpochGrant granted, absl::Time now);

  const EpochGrant& grant() const { return grant_; }
  bool IsHeldBy(const EpochGrant& wanted) const;
  enum class Manner { kIfFree, kTakeOver };
  // Checks whether the epoch `wanted` may be granted. Errors, both FAILED_PRECONDITION: class
  // CONFIGURATION, naming the holder, if the task is kept for another job; class STALE, naming the
  // holder, if the epoch is lower than the held one or is held by another coordinator.
  absl::Status Check(const EpochGrant& wanted, Manner manner, absl::Time now) const;
  void Grant(EpochGrant wanted, absl::Time now);
  // Records a call from the holder, which starts the holder's lease again.
  void Hear(absl::Time now);
  // Records that the holder no longer wants the task.
  void Release() { released_ = true; }

  // Returns how long, from `now` on, the task may not go to another job; zero if another job may
  // take the task at once.
  absl::Duration Kept(absl::Time now) const;
  uint64_t heard() const { return heard_; }
  // Returns text such as "coordinator incarnation 7 of job 'mnist', process 12 on host a".
  std::string Holder() const;

 private:
  EpochGrant grant_;
  absl::Time heard_at_;
  uint64_t heard_ = 0;
  bool released_ = false;
};

}  // namespace cohort
