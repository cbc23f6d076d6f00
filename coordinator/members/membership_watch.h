#pragma once

// Keeps the workers of a job equal to an external list (membership_source.h). The watch reads the
// list repeatedly, adds new workers, and then removes the missing ones. A list is used only if two
// successive readings agree, so that nothing changes while a file is being written or DNS servers
// disagree for a moment. If a list cannot be read or is empty, the workers stay as they are, and a
// log line says why.

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

// Keeps one job's workers equal to the list of one membership source. Thread-safe. Shared: its
// timers and calls hold it.
class MembershipWatch : public std::enable_shared_from_this<MembershipWatch> {
 public:
  static std::shared_ptr<MembershipWatch> Create(World world,
                                                 std::unique_ptr<MembershipSource> source,
                                                 std::shared_ptr<Cluster> cluster,
                                                 std::shared_ptr<WorkerChanges> changes);
  void Start();
  // Stops the watch: it begins no new change, but changes under way are completed.
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
  // Logs the error `status`, which concerns `about`, unless the same error was the last one logged
  // for `about`.
  void Trouble(const std::string& about, const absl::Status& status);

  const World world_;
  const std::unique_ptr<MembershipSource> source_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  // Adds and removes the workers; shared with the service for operators.
  const std::shared_ptr<WorkerChanges> changes_;
  Strand strand_;
  // The members below are used on the strand only.
  bool stopped_ = false;
  List last_read_;
  List list_;                    // the last list that two successive readings returned
  std::set<std::string> asked_;  // listed addresses whose workers were asked and have not answered
  // The worker of each address: the one that answered there last, or the member that has this
  // address.
  std::map<std::string, TaskId> found_;
  std::set<std::string> seen_;  // every address that was ever on the list
  std::map<std::string, std::string> troubles_;
};

}  // namespace cohort
