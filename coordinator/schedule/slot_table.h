#pragma once

// The slots of all workers: which workers serve, how many closures each runs, which resources each
// has been given, and which of them gets the next closure. A worker has as many slots as closures
// that it may hold at once. The states of a worker:
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
#include "coordinator/schedule/scheduler_stats.h"
#include "coordinator/schedule/worker_run.h"
#include "proto/error.pb.h"

namespace cohort {

// The state of one worker: its session, its process, and the closures and resources that it has
// been given.
struct WorkerSlots {
  bool ready = false;
  // The number of the worker's last Attach. All pushes for closures on the worker carry the
  // session. So pushes from before a loss of the worker can be fenced, while later pushes of the
  // same process are accepted.
  uint64_t session = 0;
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // the channel to the worker, shared with its runs
  int in_flight = 0;
  // No closure is sent to the worker before this time.
  absl::Time hold_until = absl::InfinitePast();
  // How long the worker was held after its last silent set-up call; zero: it has done a closure
  // since.
  absl::Duration held;
  std::set<std::string> prepared;  // keys of the resources that the process holds
  // The callbacks that Remove was given. Not empty while the worker is being removed.
  std::vector<absl::AnyInvocable<void()>> on_drained;
};

// The longest time for which a worker is held because its set-up calls are silent.
inline constexpr absl::Duration kHoldMax = absl::Minutes(1);

// The slots of all workers. Methods that change the slots of a worker may be called only after
// Attach or Remove was called for the worker. Thread-compatible.
class SlotTable {
 public:
  explicit SlotTable(int slots_of_each) : slots_of_each_(slots_of_each) {}

  // Notes that a process of the worker serves, and gives the worker a new session. If the worker is
  // being removed, does nothing and returns false.
  bool Attach(int worker, const proto::TaskRef& task, const std::string& address,
              std::shared_ptr<Channel> channel);
  // Stops giving closures to the worker until Attach is called for it again.
  void Detach(int worker) { slots_.at(worker).ready = false; }
  // Forgets all workers, because all runs were taken back. A worker is in the table again after its
  // next Attach. Workers that are being removed stay until TakeDrained.
  void Clear();
  // Stops giving closures to the worker, for good. TakeDrained returns `drained` once no closure
  // runs on the worker.
  void Remove(int worker, absl::AnyInvocable<void()> drained);
  // Returns the callbacks of removed workers on which no closure runs, and forgets these workers.
  std::vector<absl::AnyInvocable<void()>> TakeDrained();

  // Returns the worker's slots, or nullptr if the worker is not in the table.
  const WorkerSlots* Find(int worker) const;
  const std::map<int, WorkerSlots>& all() const { return slots_; }
  // Returns whether the member's worker still serves in the session in which the member's run
  // began.
  bool Serves(const GangMember& member) const;
  // Returns whether any worker other than `worker` may take closures now.
  bool AnotherServes(int worker, absl::Time now) const;
  // Returns whether the worker may take another closure now.
  bool HasRoom(int worker, absl::Time now) const;
  // Chooses, among the workers that have room and that `may` accepts, one with the fewest closures
  // in flight. Workers with equally many take turns. Returns -1 if no worker can be chosen.
  int Choose(absl::Time now, absl::FunctionRef<bool(int worker)> may);

  // Takes a slot of the worker for a run, and returns the worker as a member of the run.
  GangMember Take(int worker);
  // Gives back the slots that a run has taken.
  void Return(const std::vector<GangMember>& members);
  // Stops giving closures to a worker whose set-up call was silent: for as long as the call, then,
  // if the next one is silent too, for twice as long, and so on up to kHoldMax. Otherwise each
  // closure of a barrier could in turn wait for this worker. Returns the end of the hold.
  absl::Time Hold(int worker, absl::Time now, absl::Duration silent);
  // Stops giving closures to the worker until the time `until`.
  void HoldUntil(int worker, absl::Time until) { slots_.at(worker).hold_until = until; }

  bool HasResource(int worker, const std::string& key) const;
  // Note that the member's process was given a resource, or has lost all its resources. Both
  // methods do nothing if another process of the worker serves by now.
  void AddResource(const GangMember& member, const std::string& key);
  void ForgetResources(const GangMember& member);

  void CountDone(int worker);
  // Returns the number of workers that have ever served and were not removed.
  size_t known() const { return done_on_.size(); }
  std::map<int, WorkerStats> stats() const;

 private:
  const int slots_of_each_;
  std::map<int, WorkerSlots> slots_;
  std::map<int, uint64_t> done_on_;  // number of closures done on each worker that has ever served
  int last_ = -1;                    // worker that was chosen last
  uint64_t last_session_ = 0;
};

}  // namespace cohort
