#pragma once

// Keeps the workers of a job equal to an external list (membership_source.h). The watch reads the
// list again and again, adds the workers that are new in it, and then removes those that are
// missing. A list is used only if two readings in a row return it, so that nothing changes while a
// file is being written, or while DNS servers disagree for a moment. If the list cannot be read or
// is empty, the workers stay as they are, and a log line says why.

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

// Keeps the workers of one job equal to the list of one source. Timers and calls share its
// ownership. Thread-safe.
class MembershipWatch : public std::enable_shared_from_this<MembershipWatch> {
 public:
  static std::shared_ptr<MembershipWatch> Create(World world,
                                                 std::unique_ptr<MembershipSource> source,
                                                 std::shared_ptr<Cluster> cluster,
                                                 std::shared_ptr<WorkerChanges> changes);
  void Start();
  // Stops the watch. It begins no new change, but changes under way are completed.
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
  // Logs the error `status`. `about` says what the error concerns, such as an address. Does nothing
  // if the last error about the same thing was equal, or if `status` is OK.
  void Trouble(const std::string& about, const absl::Status& status);

  const World world_;
  const std::unique_ptr<MembershipSource> source_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  // Makes the changes of the job's workers. Shared with the service for operators.
  const std::shared_ptr<WorkerChanges> changes_;
  Strand strand_;
  // The members below are used only on `strand_`, so by one thread at a time.
  bool stopped_ = false;
  List last_read_;
  List list_;                    // the list in use: the last that was read twice in a row
  std::set<std::string> asked_;  // listed addresses that were asked and have not answered
  // The worker at each address: the worker that answered there last, or a member with this address.
  std::map<std::string, TaskId> found_;
  std::set<std::string> seen_;  // every address that was ever in list_
  std::map<std::string, std::string> troubles_;
};

}  // namespace cohort
