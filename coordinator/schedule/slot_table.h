#pragma once

// The slots of all workers: which workers serve, what each runs and has been given, and which of
// them takes the next closure. Each worker has as many slots as it may hold closures.
//
//   Attach --> serves --Detach (lost, suspect)--> away --Attach--> serves, in another session
//   Remove --> takes nothing more --its last closure ends--> gone (TakeDrained)

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
  // The number of the attachment. Pushes carry the session, so that pushes from before a loss can
  // be fenced, while pushes after the return of the same process are let in.
  uint64_t session = 0;
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // shared with runs
  int in_flight = 0;
  absl::Time hold_until = absl::InfinitePast();  // nothing is sent to the worker before this time
  std::set<std::string> prepared;                // keys of the resources that the worker has
  std::vector<absl::AnyInvocable<void()>> on_drained;  // not empty while the worker is removed
};

// The slots of all workers. Workers named to a call are those that Attach or Remove has named.
// Thread-compatible.
class SlotTable {
 public:
  explicit SlotTable(int slots_of_each) : slots_of_each_(slots_of_each) {}

  // Notes that a process of the worker serves, in a new session. Does nothing, and returns false,
  // while the worker is being removed.
  bool Attach(int worker, const proto::TaskRef& task, const std::string& address,
              std::shared_ptr<Channel> channel);
  // Gives the worker nothing until it attaches again.
  void Detach(int worker) { lanes_.at(worker).ready = false; }
  // Lets all workers attach again: whatever runs on them was taken back.
  void Clear();
  // Removes a worker; `drained` is taken once nothing runs there any more.
  void Remove(int worker, absl::AnyInvocable<void()> drained);
  // Takes the callbacks of removed workers that run nothing any more, and forgets these workers.
  std::vector<absl::AnyInvocable<void()>> TakeDrained();

  // Returns null for a worker that is not there.
  const WorkerSlots* Find(int worker) const;
  const std::map<int, WorkerSlots>& all() const { return lanes_; }
  // Returns whether the process that is the member serves still, and has not attached again.
  bool Serves(const GangMember& member) const;
  // Returns whether another worker than this one may take closures now.
  bool AnotherServes(int worker, absl::Time now) const;
  // Returns whether the worker may take one more closure now.
  bool HasRoom(int worker, absl::Time now) const;
  // Chooses, of the workers with room that `may` take the closure, one with the fewest in flight.
  // Workers with as many take turns. Returns -1 for none.
  int Choose(absl::Time now, absl::FunctionRef<bool(int worker)> may);

  // Takes a slot.
  GangMember Take(int worker);
  // Gives the slots of a run back.
  void Return(const std::vector<GangMember>& members);
  // Gives the worker nothing before this time.
  void HoldUntil(int worker, absl::Time until) { lanes_.at(worker).hold_until = until; }

  bool HasResource(int worker, const std::string& key) const;
  // Note that the process that is the member was given a resource, or has none any more. Another
  // process in its place is not concerned.
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
