#pragma once

// A watch that keeps the workers of a job equal to an external list (membership_source.h). It reads
// the list again and again, adds new workers, and then removes the missing ones. A list is used
// only if two successive readings agree, so that a file that is being written, or DNS servers that
// disagree for a moment, change nothing. A list that cannot be read or is empty changes nothing and
// is logged.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/strand.h"
#include "common/wire/world.h"
#include "coordinator/members/membership_source.h"
#include "coordinator/members/worker_changes.h"

namespace cohort {

// Follows one membership source for one job. Thread-safe. Shared: its timers and calls hold it.
class MembershipWatch : public std::enable_shared_from_this<MembershipWatch> {
 public:
  static std::shared_ptr<MembershipWatch> Create(World world,
                                                 std::unique_ptr<MembershipSource> source,
                                                 std::shared_ptr<Cluster> cluster,
                                                 std::shared_ptr<WorkerChanges> changes);
  void Start();
  // Stops the watch: no new change begins, but changes under way still end.
  void Stop();

 private:
  using List = std::vector<std::string>;

  MembershipWatch(World world, std::unique_ptr<MembershipSource> source,
                  std::shared_ptr<Cluster> cluster, std::shared_ptr<WorkerChanges> changes);
  void Post(absl::AnyInvocable<void()> task);
  void Tick();
  void OnRead(const absl::StatusOr<List>& list);
  void AddListed();
  void OnAdded(const std::string& address, const absl::StatusOr<WorkerChanges::Added>& added);
  void RemoveUnlisted();
  void Remove(TaskId task);
  // Logs the error `status` of `about` once, until the error changes or ends.
  void Trouble(const std::string& about, const absl::Status& status);

  const World world_;
  const std::unique_ptr<MembershipSource> source_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  // Adds and removes workers; shared with the ctl service.
  const std::shared_ptr<WorkerChanges> changes_;
  Strand strand_;
  // The members below are used on the strand only.
  bool stopped_ = false;
  List last_read_;
  List list_;                    // the last list on which two readings agreed
  std::set<std::string> asked_;  // listed addresses that were asked and have not answered
  // The worker that answered last at an address, or that the cluster expects there.
  std::map<std::string, TaskId> found_;
  std::set<std::string> seen_;  // every address that was ever on the list
  std::map<std::string, std::string> troubles_;
};

}  // namespace cohort
