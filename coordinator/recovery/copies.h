#pragma once

// Keeps the workers' copies of mirrored variables equal, while workers are lost and come back. A
// worker is in step if its copy contains all finished closures, bit for bit like the other copies:
//
//   in step --lost, or it did not end a gang that others ended--> out of step
//   out of step --it serves, and was given the copy of a worker in step--> in step
//
// Gangs run on the workers that are in step, however many there are, and no closure is taken back.
// If some workers have ended a gang, their copies contain its result, and the others are out of
// step. A gang that no worker has ended runs again on the workers that are left.
//
// Copies are made while no gang is under way. The slices of one worker, with their slots and
// histories, are frozen; the other worker fetches them and restores them. Each copy under way has a
// source worker of its own, and a worker that has got a copy can be the source of the next one. So
// if one worker is left in step, giving n others a copy takes as long as log2(n + 1) copies.
//
// If no worker is left in step, the variables are lost: `on_all_lost` reports this loss, and no
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

// Gives workers that are out of step new copies of the variables. Calls and timers share its
// ownership. Thread-safe.
class Copies : public std::enable_shared_from_this<Copies> {
 public:
  struct Options {
    absl::Duration call_timeout = absl::Seconds(60);
    size_t chunk_bytes = 0;
    // Called when all copies are lost, and again for each further home that is lost before
    // Restored. Runs on the strand and must not block.
    std::function<void(const absl::Status&)> on_all_lost;
  };
  // Makes a Copies object for a cluster in which all homes have equal, valid copies.
  static std::shared_ptr<Copies> Create(World world, Options options,
                                        std::shared_ptr<Cluster> cluster,
                                        std::shared_ptr<Scheduler> scheduler);

  // Adds variables to those that are copied.
  void AddVariables(std::vector<proto::VariableLayout> layouts);
  // Notes that workers are out of step. `workers` maps a worker's index to the session whose late
  // pushes must be refused, or to 0 if there is none. The scheduler calls this method, so it knows
  // already; the cluster is told before this method returns.
  void OnOutOfStep(const std::map<int, uint64_t>& workers, const absl::Status& cause);
  void OnServing(int worker);
  // Notes that some pairs of workers do not reach each other any more, or reach each other again.
  // So other workers than before may be in the group.
  void OnReach();
  // Notes that a worker was added to the job. It is out of step until it has got its first copy.
  void OnAdded(int worker);
  // Notes that a worker was removed from the job, and needs no copy.
  void OnRemoved(int worker);
  // Notes that a home was lost: ends copies from or to it. If no worker is in step any more,
  // reports the loss to on_all_lost.
  void OnLost(const absl::Status& error);
  // Stops making copies until Restored(), because all homes are now restored to a checkpoint.
  void OnRecovery();
  void Restored();
  // Stops making copies, for good.
  void Stop();

 private:
  // A copy under way from one worker, the source, to another, the target.
  struct Making {
    uint64_t save = 0;
    uint64_t session = 0;  // earlier session of the target, which must be fenced
    uint64_t changes = 0;  // Cluster::changes() when the copy began
    TaskLink source;
    TaskLink target;
    int worker() const { return target.task.index(); }
  };
  // The present activity:
  //   kWatching  nothing, because no copy can be made or is needed
  //   kHolding   waiting until gangs under way have ended
  //   kMaking    making copies, while no gang is under way
  //   kAway      nothing, because all copies are lost or are being restored
  enum class Phase { kWatching, kHolding, kMaking, kAway };

  Copies(World world, Options options, std::shared_ptr<Cluster> cluster,
         std::shared_ptr<Scheduler> scheduler);
  void Post(absl::AnyInvocable<void()> task);
  // Returns links to the workers that are out of step, serve, and may get a copy now.
  std::vector<TaskLink> Ready() const;
  void MakeNext();
  void OnGangsHeld(uint64_t round);
  // Begins all copies that can be made now. If none is under way then, lets gangs run again.
  void BeginCopies();
  // Returns a worker in step that is not the source of another copy now, or nullptr. `worker` is
  // the worker that needs a copy.
  const TaskLink* SourceFor(int worker, const std::vector<TaskLink>& in_step) const;
  // Gives up all copies under way. Answers to their calls are ignored from now on.
  void GoAway();
  // The steps of one copy, in the order in which they run. Each step calls the next one when its
  // call is answered.
  void Fence(Making making);
  void CreateVariables(Making making);
  void Hold(Making making);
  void Copy(const Making& making, std::vector<proto::SavedSlice> layout);
  void End(const Making& making, const absl::Status& status);
  // Ends the copies under way whose source or target is this worker.
  void EndCopiesOf(int worker, const absl::Status& status);
  // Notes that a copy to the worker has failed, so that the next one begins only after a pause.
  void PutOff(int worker, const absl::Status& status);
  // Makes one call for the copy number `save`. `then` gets the answer, unless the copy has ended
  // meanwhile.
  template <typename Response, typename Request>
  void Call(uint64_t save, const TaskLink& link, const char* method, Request request,
            absl::AnyInvocable<void(absl::StatusOr<Response>)> then);

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;      // the cluster, shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;  // the scheduler, shared with the coordinator
  Strand strand_;
  // The members below are used only on `strand_`, so by one thread at a time.
  Phase phase_ = Phase::kWatching;
  bool stopped_ = false;
  std::map<uint64_t, Making> makings_;  // copies under way, by the number of their save
  uint64_t round_ = 0;                  // number of times that gangs were held or copies given up
  std::map<std::string, proto::VariableLayout> variables_;
  // A worker that is out of step and waits for a copy. Only failures of its own copies make it wait
  // longer.
  struct Waiting {
    uint64_t session = 0;
    int failures = 0;  // number of failed copies in a row
    // The value of round_ at the last attempt. A worker gets one attempt in each round, so that
    // gangs are not held for long.
    uint64_t tried = 0;
    // True if the worker never had a copy. A restore gives such a worker none.
    bool joining = false;
    absl::Time not_before = absl::InfinitePast();
  };
  std::map<int, Waiting> out_of_step_;  // workers that wait for a copy, by index
};

}  // namespace cohort
