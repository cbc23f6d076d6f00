#pragma once

// One process start of the coordinator and the program over it, which does the items of a job. It
// blocks, so it runs on an actor. Several may live at one time; those that were taken over must end
// with an error that names the winner.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/cluster/cluster.h"
#include "tests/sim/job_plan.h"
#include "tests/sim/sim_actors.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

// Lives on its actor; what others ask while it waits is marked.
class JobLife {
 public:
  struct Options {
    std::string host;
    uint64_t incarnation = 0;
    std::string directory;
    ClusterSpec cluster;
    std::function<void(const std::string& what)> violate;
    std::function<void(const std::string& event)> note;
    // All items are done: nothing strikes from here on.
    std::function<void()> on_all_done;
  };
  enum class End { kRunning, kFinished, kKilled, kSuperseded, kFailed };

  virtual ~JobLife();

  void Run();

  // From outside.
  void Kill() { killed_ = true; }
  // Every wait ends; what it waited for is its error.
  void GiveUp() { gave_up_ = true; }
  End end() const { return end_; }
  const absl::Status& error() const { return error_; }
  const std::string& host() const { return options_.host; }
  uint64_t incarnation() const { return options_.incarnation; }
  // Bounds that hold at any moment.
  void CheckBounds();
  std::string DescribeWait() const;
  // Closures that have ended so far, those that ran again after a restore included.
  uint64_t NumEnded() const;
  // Whether the coordinator hears of the task, or has none yet.
  bool IsHeardOf(TaskId task) const;
  // The worker leaves the job by order, and is added again after so long; infinite: by AddRemoved.
  // False when it may not leave.
  bool RemoveWorker(const std::string& host, absl::Duration absence);
  void AddRemoved();
  // Whether faults excuse an end with this error.
  virtual bool MayEndWith(const absl::Status&) const { return false; }

 protected:
  JobLife(World world, SimActors& actors, const JobPlan& plan, Options options);

  // The coordinator is there, with the programs; what an earlier one has left open is scheduled.
  virtual absl::Status Start() = 0;
  virtual absl::Status DoItems() = 0;
  virtual absl::Status Finish() = 0;
  virtual absl::Status JoinAll() = 0;
  virtual absl::Status FetchOne() = 0;

  // As the plan says; the rest is the job's.
  ClusterCoordinator::Options CoordinatorOptions() const;
  absl::Status Connect(ClusterCoordinator::Options options);
  // Unless ids are there already.
  void SkipTo(uint64_t next);
  // Calls in between, as a program makes them.
  absl::Status Disturb();
  // Behind a Join: nothing is left.
  absl::Status CheckJoined(absl::Status joined);
  // A closure that takes so many ids was scheduled: they count up.
  void CheckNextId(uint64_t closure, uint64_t ids);
  void KeepPace(uint32_t milliseconds_max);
  // Ends early when it is over.
  void WaitFor(const std::function<bool()>& holds, absl::Duration timeout);

  bool IsOver() const { return killed_ || gave_up_; }
  bool IsKilled() const { return killed_; }
  const Options& options() const { return options_; }
  SequenceRng& rng() { return rng_; }
  ClusterCoordinator& coordinator() const { return *coordinator_; }

 private:
  // Waits on the actor; ends early when the process is killed.
  class LifeWaiter final : public Waiter {
   public:
    explicit LifeWaiter(JobLife& life) : life_(life) {}
    bool Wait(const Event& event, absl::Duration timeout) override;

   private:
    JobLife& life_;
  };

  absl::Status Live();
  End EndOf(const absl::Status& error) const;

  const World world_;
  SimActors& actors_;
  const JobPlan& plan_;
  const Options options_;
  LifeWaiter waiter_;
  SequenceRng rng_;
  bool killed_ = false;
  bool gave_up_ = false;
  End end_ = End::kRunning;
  absl::Status error_;
  std::vector<Cluster::TaskStatus> removed_;  // until AddRemoved
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

}  // namespace cohort
