#pragma once

// The copies of mirrored variables, which are kept in step while workers are lost and come back. A
// worker is in step when its copy contains all finished closures, bit for bit like the other
// copies:
//
//   in step --lost, or it did not end a gang that others ended--> out of step
//   out of step --it serves, and was given the copy of a worker in step--> in step
//
// Gangs run on the workers that are in step, however many there are, and no closure is taken back.
// If some workers have ended a gang, its result is in their copies. A gang that no worker has ended
// runs again on the workers that are left.
//
// Copies are made while no gang is under way: the slices of one worker, with their slots and
// histories, are frozen, fetched by the other worker and restored there. Each copy under way has a
// source worker of its own, and a worker that has got a copy can be the source of the next one. So
// giving n workers a copy, when one worker is left in step, takes the time of log2(n + 1) copies.
//
// When no worker is left in step, the variables are lost: `on_all_lost` reports this loss, and no
// copy is made until Restored.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/strand.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/schedule/scheduler.h"
#include "proto/plan.pb.h"
#include "proto/ps.pb.h"

namespace cohort {

// Gives out-of-step workers new copies of the variables. Thread-safe. Shared: calls and timers hold
// it.
class Copies : public std::enable_shared_from_this<Copies> {
 public:
  struct Options {
    absl::Duration call_timeout = absl::Seconds(60);
    size_t chunk_bytes = 0;
    // Tells that all copies are lost. Runs on the strand and must not block. Runs again for each
    // further home that is lost before Restored.
    std::function<void(const absl::Status&)> on_all_lost;
  };
  // Makes a Copies object for a cluster in which all homes have valid copies.
  static std::shared_ptr<Copies> Create(World world, Options options,
                                        std::shared_ptr<Cluster> cluster,
                                        std::shared_ptr<Scheduler> scheduler);

  // Adds variables to those that a copy contains.
  void AddVariables(std::vector<proto::VariableLayout> layouts);
  // Notes that workers are out of step. `workers` maps a worker's index to the session whose late
  // pushes must be refused, or to 0 if there is none. The scheduler knows this already; the cluster
  // knows it when this method returns.
  void OnOutOfStep(const std::map<int, uint64_t>& workers, const absl::Status& cause);
  void OnServing(int worker);
  // Notes that some pairs of workers have begun or ceased to reach each other, so that other
  // workers may join the group now.
  void OnReach();
  // Notes that a worker was added to the job. The worker is out of step until it has got its first
  // copy.
  void OnAdded(int worker);
  // Notes that a worker was removed and needs no copy.
  void OnRemoved(int worker);
  // Notes that a home was lost. If the home had a valid copy, the scheduler knows the loss already,
  // unless all copies are lost.
  void OnLost(const absl::Status& error);
  // Stops making copies, until Restored is called, because all homes are being restored to a
  // checkpoint.
  void OnRecovery();
  void Restored();
  // Stops the making of copies for good.
  void Stop();

 private:
  // A copy under way from one worker to another.
  struct Making {
    uint64_t save = 0;
    uint64_t session = 0;  // earlier session of the target, whose late pushes must be refused
    uint64_t changes = 0;  // value of Cluster::changes() before the copy began
    TaskLink source;
    TaskLink target;
    int worker() const { return target.task.index(); }
  };
  // The present activity of the copies. kWatching: nothing, because no copy is needed. kHolding:
  // waits for gangs under way to end. kMaking: no gang is under way, and copies are made. kAway:
  // nothing, because all copies are lost or being restored.
  enum class Phase { kWatching, kHolding, kMaking, kAway };

  Copies(World world, Options options, std::shared_ptr<Cluster> cluster,
         std::shared_ptr<Scheduler> scheduler);
  void Post(absl::AnyInvocable<void()> task);
  // Returns the workers that are out of step and could get a copy now.
  std::vector<TaskLink> Ready() const;
  void MakeNext();
  void OnGangsHeld(uint64_t round);
  // Begins all copies that can be made now. If none is left to make, lets gangs run again.
  void BeginCopies();
  // Returns a worker in step that is not the source of another copy now, or null.
  const TaskLink* SourceFor(int worker, const std::vector<TaskLink>& in_step) const;
  // Gives up all copies under way, whose answers are ignored from now on.
  void GoAway();
  // The steps of one copy, in this order; each step calls the next one.
  void Fence(Making making);
  void CreateVariables(Making making);
  void Hold(Making making);
  void Copy(const Making& making, std::vector<proto::SavedSlice> layout);
  void End(const Making& making, const absl::Status& status);
  // Ends the copies under way whose target or source is the worker.
  void EndCopiesOf(int worker, const absl::Status& status);
  // Delays the next copy to a worker after a failure.
  void PutOff(int worker, const absl::Status& status);
  // Calls a home. `then` runs only if the copy `save` is still under way when the answer comes.
  template <typename Response, typename Request>
  void Call(uint64_t save, const TaskLink& link, const char* method, Request request,
            absl::AnyInvocable<void(absl::StatusOr<Response>)> then);

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;      // the cluster, shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;  // the scheduler, shared with the coordinator
  Strand strand_;
  // The members below are used on the strand only.
  Phase phase_ = Phase::kWatching;
  bool stopped_ = false;
  std::map<uint64_t, Making> makings_;  // copies under way, by the number of their save
  uint64_t round_ = 0;  // number of times that gangs were held or all copies given up
  std::map<std::string, proto::VariableLayout> variables_;
  // A worker that is out of step and waits for a copy. Its delay depends only on failures of its
  // own copies.
  struct Waiting {
    uint64_t session = 0;
    int failures = 0;  // number of consecutive failed copies
    // The value of round_ at the last attempt. A worker gets only one attempt in each round, so
    // that gangs are not held for long.
    uint64_t tried = 0;
    // Whether the worker never had a copy. If so, a restore gives it none.
    bool joining = false;
    absl::Time not_before = absl::InfinitePast();
  };
  std::map<int, Waiting> out_of_step_;  // workers that wait for a copy, by index
};

}  // namespace cohort
