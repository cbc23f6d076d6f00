#pragma once

// The slots of all workers: which workers serve, what each runs and has been given, and which of
// them gets the next closure. Each worker has as many slots as it may hold closures.
//
//   Attach --> serves --Detach (lost, suspect)--> away --Attach--> serves, in another session
//   Remove --> gets no more closures --its last closure ends--> gone (TakeDrained)

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/wire/transport.h"
#include "coordinator/schedule/scheduler_options.h"
#include "coordinator/schedule/worker_run.h"
#include "proto/error.pb.h"

namespace cohort {

// A worker as the scheduler sees it.
struct WorkerSlots {
  bool ready = false;
  // The session of the worker: the number of its last Attach. Pushes carry the session, so that
  // pushes from before a loss can be fenced, while pushes after the return of the same process are
  // let in.
  uint64_t session = 0;
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // the channel to the worker, shared with its runs
  int in_flight = 0;
  absl::Time hold_until = absl::InfinitePast();  // nothing is sent to the worker before this time
  std::set<std::string> prepared;                // keys of the resources that the worker has
  std::vector<absl::AnyInvocable<void()>> on_drained;  // set while the worker is being removed
};

// The slots of all workers. Calls that change a worker's slots need a worker that Attach or Remove
// has named. Thread-compatible.
class SlotTable {
 public:
  explicit SlotTable(int slots_of_each) : slots_of_each_(slots_of_each) {}

  // Notes that a process of the worker serves, in a new session. Does nothing, and returns false,
  // while the worker is being removed.
  bool Attach(int worker, const proto::TaskRef& task, const std::string& address,
              std::shared_ptr<Channel> channel);
  // Gives the worker no closures until it attaches again.
  void Detach(int worker) { lanes_.at(worker).ready = false; }
  // Forgets all workers until they attach again, because all runs were taken back. Workers that are
  // being removed stay until TakeDrained.
  void Clear();
  // Removes a worker; TakeDrained returns `drained` once nothing runs on the worker.
  void Remove(int worker, absl::AnyInvocable<void()> drained);
  // Returns the callbacks of removed workers on which nothing runs, and forgets these workers.
  std::vector<absl::AnyInvocable<void()>> TakeDrained();

  // Returns the worker's slots, or null for a worker that is not in the table.
  const WorkerSlots* Find(int worker) const;
  const std::map<int, WorkerSlots>& all() const { return lanes_; }
  // Returns whether the member's process still serves in the session in which the run began.
  bool Serves(const GangMember& member) const;
  // Returns whether another worker than this one may take closures now.
  bool AnotherServes(int worker, absl::Time now) const;
  // Returns whether the worker may take one more closure now.
  bool HasRoom(int worker, absl::Time now) const;
  // Chooses a worker with the fewest closures in flight, among the workers with room that `may`
  // take the closure. Workers with equally few take turns. Returns -1 if there is no such worker.
  int Choose(absl::Time now, absl::FunctionRef<bool(int worker)> may);

  // Takes a slot of the worker for a run.
  GangMember Take(int worker);
  // Gives back the slots of a run.
  void Return(const std::vector<GangMember>& members);
  // Gives the worker no closures before this time.
  void HoldUntil(int worker, absl::Time until) { lanes_.at(worker).hold_until = until; }

  bool HasResource(int worker, const std::string& key) const;
  // Note that the member's process was given a resource, or has no resources any more. Both calls
  // do nothing if the worker has another process by now.
  void AddResource(const GangMember& member, const std::string& key);
  void ForgetResources(const GangMember& member);

  void CountDone(int worker) { ++done_on_[worker]; }
  // Returns how many workers have ever served and were not removed.
  size_t known() const { return done_on_.size(); }
  std::map<int, WorkerStats> stats() const;

 private:
  const int slots_of_each_;
  std::map<int, WorkerSlots> lanes_;
  std::map<int, uint64_t> done_on_;  // closures done, by each worker that has ever served
  int last_ = -1;                    // the worker that was chosen last
  uint64_t last_session_ = 0;
};

}  // namespace cohort
