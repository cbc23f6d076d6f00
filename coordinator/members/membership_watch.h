#pragma once

// Keeps the workers of a job equal to a list that others keep (membership_source.h): reads the list
// again and again, takes in new workers, then lets the missing ones go. A list counts if two
// readings in a row agree, so that a file that is being written, or a name whose servers disagree
// for a moment, moves nobody. A list that cannot be read or is empty changes nothing and is logged.

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

// Thread-safe. Shared: its timers and calls hold it.
class MembershipWatch : public std::enable_shared_from_this<MembershipWatch> {
 public:
  static std::shared_ptr<MembershipWatch> Create(World world,
                                                 std::unique_ptr<MembershipSource> source,
                                                 std::shared_ptr<Cluster> cluster,
                                                 std::shared_ptr<WorkerChanges> changes);
  void Start();
  // Stops all changes but those under way.
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
  // Logs a trouble once, until it is over.
  void Trouble(const std::string& about, const absl::Status& status);

  const World world_;
  const std::unique_ptr<MembershipSource> source_;
  const std::shared_ptr<Cluster> cluster_;        // shared with the coordinator
  const std::shared_ptr<WorkerChanges> changes_;  // shared with the ctl service
  Strand strand_;
  // Used on the strand alone.
  bool stopped_ = false;
  List last_read_;
  List list_;                    // agreed on
  std::set<std::string> asked_;  // addresses whose worker is not known yet
  // the worker that answered last at an address, or is to live there
  std::map<std::string, TaskId> found_;
  std::set<std::string> seen_;  // addresses that were ever on the list
  std::map<std::string, std::string> troubles_;
};

}  // namespace cohort
