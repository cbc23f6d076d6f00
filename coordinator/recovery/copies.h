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
    // On the strand; must not block. Also for homes that are lost before Restored.
    std::function<void(const absl::Status&)> on_all_lost;
  };
  // All homes of the cluster are in step.
  static std::shared_ptr<Copies> Create(World world, Options options,
                                        std::shared_ptr<Cluster> cluster,
                                        std::shared_ptr<Scheduler> scheduler);

  // That a worker is to hold which had none.
  void AddVariables(std::vector<proto::VariableLayout> layouts);
  // These workers are out of step: by index, with the session by which what they may still push is
  // fenced, or 0. The scheduler knows it already, and the cluster before this returns.
  void OnOutOfStep(const std::map<int, uint64_t>& workers, const absl::Status& cause);
  void OnServing(int worker);
  // Pairs of workers reach each other again, or do not: who may join the group is another one.
  void OnReach();
  // The worker came into the job, and is out of step until it has got its first copy.
  void OnAdded(int worker);
  // The worker is no home any more.
  void OnRemoved(int worker);
  // A home was lost: of a copy that the scheduler knows already, but where all are away.
  void OnLost(const absl::Status& error);
  // All copies are put back to a checkpoint: nothing is done here until Restored.
  void OnRecovery();
  void Restored();
  // Nothing happens any more.
  void Stop();

 private:
  // A copy that is under way.
  struct Making {
    uint64_t save = 0;
    uint64_t session = 0;  // that is fenced
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
  // Those that can be given a copy now.
  std::vector<TaskLink> Ready() const;
  void MakeNext();
  void OnGangsHeld(uint64_t round);
  // All that can be made now; gangs go on when none is left.
  void BeginCopies();
  // From a member that no other one is made from. Nothing, where there is none.
  const TaskLink* SourceFor(int worker, const std::vector<TaskLink>& in_step) const;
  // What is under way is not waited for, and its answers are ignored.
  void GoAway();
  // The steps, each of which begins the next one.
  void Fence(Making making);
  void CreateVariables(Making making);
  void Hold(Making making);
  void Copy(const Making& making, std::vector<proto::SavedSlice> layout);
  void End(const Making& making, const absl::Status& status);
  // Ends those that are made for the worker, or of it.
  void EndCopiesOf(int worker, const absl::Status& status);
  // Its next copy is made later.
  void PutOff(int worker, const absl::Status& status);
  // `then` runs only while the copy is under way.
  template <typename Response, typename Request>
  void Call(uint64_t save, const TaskLink& link, const char* method, Request request,
            absl::AnyInvocable<void(absl::StatusOr<Response>)> then);

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;      // shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;  // shared with the coordinator
  Strand strand_;
  // On the strand.
  Phase phase_ = Phase::kWatching;
  bool stopped_ = false;
  std::map<uint64_t, Making> makings_;  // under way, by save
  uint64_t round_ = 0;                  // counts how often gangs were held
  std::map<std::string, proto::VariableLayout> variables_;
  // Each waits for its own failures alone.
  struct Waiting {
    uint64_t session = 0;
    int failures = 0;      // of copies, in a row
    uint64_t tried = 0;    // in which round: once in each, so that gangs do not stand for long
    bool joining = false;  // it never had a copy, so a restore brings it none
    absl::Time not_before = absl::InfinitePast();
  };
  std::map<int, Waiting> out_of_step_;  // by worker
};

}  // namespace cohort
