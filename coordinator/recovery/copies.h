#pragma once

// Keeps the copies of mirrored variables in step while workers are lost and come back. A worker is
// in step when its copy has all that is done, bit for bit as the others':
//
//   in step --lost, or it did not end a gang that others ended--> out of step
//   out of step --it serves, and was given a copy of one in step--> in step
//
// Gangs run on those that are in step, however many there are, and nothing is taken back: what a
// gang has done is in the copies of those that have ended it, and one that none has ended runs
// again on those that are left. Copies are made while no gang is under way: the slices that one
// worker holds, with their slots and histories, are frozen, fetched by the other one and restored
// there. Each is made from a member of its own, and who has got one is such a member for the next,
// so that n newcomers take the time of log2(n + 1) copies where one member is left.
//
// When none is left in step, the variables are lost: `on_all_lost` says so, and until Restored this
// does nothing.

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

// Thread-safe. Shared: calls and timers hold it.
class Copies : public std::enable_shared_from_this<Copies> {
 public:
  struct Options {
    absl::Duration call_timeout = absl::Seconds(60);
    size_t chunk_bytes = 0;
    // Tells that all copies are lost. Runs on the strand; must not block. Runs also for homes that
    // are lost before Restored.
    std::function<void(const absl::Status&)> on_all_lost;
  };
  // Makes the keeper; all homes of the cluster are in step.
  static std::shared_ptr<Copies> Create(World world, Options options,
                                        std::shared_ptr<Cluster> cluster,
                                        std::shared_ptr<Scheduler> scheduler);

  // Adds variables that workers without them must get.
  void AddVariables(std::vector<proto::VariableLayout> layouts);
  // Notes that these workers are out of step: by index, with the session by which their late pushes
  // are fenced, or 0. The scheduler knows it already, and the cluster does before this returns.
  void OnOutOfStep(const std::map<int, uint64_t>& workers, const absl::Status& cause);
  void OnServing(int worker);
  // Notes that pairs of workers reach each other again, or do not: other workers may join the group
  // now.
  void OnReach();
  // Notes that the worker came into the job; it is out of step until it has got its first copy.
  void OnAdded(int worker);
  // Notes that the worker is no home any more.
  void OnRemoved(int worker);
  // Notes that a home was lost: one with a copy that the scheduler knows already, unless all are
  // away.
  void OnLost(const absl::Status& error);
  // Stops while all copies are put back to a checkpoint, until Restored.
  void OnRecovery();
  void Restored();
  // Stops for good.
  void Stop();

 private:
  // A copy that is under way.
  struct Making {
    uint64_t save = 0;
    uint64_t session = 0;  // the session that is fenced
    uint64_t changes = 0;  // Cluster::changes() before it
    TaskLink source;
    TaskLink target;
    int worker() const { return target.task.index(); }
  };
  // kHolding: gangs end; kMaking: none is under way.
  enum class Phase { kWatching, kHolding, kMaking, kAway };

  Copies(World world, Options options, std::shared_ptr<Cluster> cluster,
         std::shared_ptr<Scheduler> scheduler);
  void Post(absl::AnyInvocable<void()> task);
  // Returns the workers that can be given a copy now.
  std::vector<TaskLink> Ready() const;
  void MakeNext();
  void OnGangsHeld(uint64_t round);
  // Begins all copies that can be made now; gangs go on when none is left.
  void BeginCopies();
  // Returns a member that no other copy is made from, or null.
  const TaskLink* SourceFor(int worker, const std::vector<TaskLink>& in_step) const;
  // Gives up what is under way; its answers are ignored.
  void GoAway();
  // The steps of a copy, each of which begins the next one.
  void Fence(Making making);
  void CreateVariables(Making making);
  void Hold(Making making);
  void Copy(const Making& making, std::vector<proto::SavedSlice> layout);
  void End(const Making& making, const absl::Status& status);
  // Ends those that are made for the worker, or of it.
  void EndCopiesOf(int worker, const absl::Status& status);
  // Puts a worker's next copy off.
  void PutOff(int worker, const absl::Status& status);
  // Makes a call; `then` runs only while the copy is under way.
  template <typename Response, typename Request>
  void Call(uint64_t save, const TaskLink& link, const char* method, Request request,
            absl::AnyInvocable<void(absl::StatusOr<Response>)> then);

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;      // shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;  // shared with the coordinator
  Strand strand_;
  // Used on the strand alone.
  Phase phase_ = Phase::kWatching;
  bool stopped_ = false;
  std::map<uint64_t, Making> makings_;  // under way, by save
  uint64_t round_ = 0;                  // counts how often gangs were held
  std::map<std::string, proto::VariableLayout> variables_;
  // A waiting worker. Each waits for its own failures alone.
  struct Waiting {
    uint64_t session = 0;
    int failures = 0;  // failed copies in a row
    // the round of the last try: one in each, so that gangs do not stand for long
    uint64_t tried = 0;
    bool joining = false;  // it never had a copy, so a restore brings it none
    absl::Time not_before = absl::InfinitePast();
  };
  std::map<int, Waiting> out_of_step_;  // keyed by worker
};

}  // namespace cohort
