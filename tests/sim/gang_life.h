#pragma once

// One process start of the coordinator of a job of gangs, and the program over it. It blocks, so it
// runs on an actor. Several may live at one time; those that were taken over must end with an error
// that names the winner.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/rng.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/sim/gang_job.h"
#include "tests/sim/sim_actors.h"

namespace cohort {

// Lives on its actor; what others ask while it waits is marked.
class GangLife {
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

  GangLife(World world, SimActors& actors, const GangPlan& plan, Options options);

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

 private:
  // Waits on the actor; ends early when the process is killed.
  class LifeWaiter final : public Waiter {
   public:
    explicit LifeWaiter(GangLife& life) : life_(life) {}
    bool Wait(const Event& event, absl::Duration timeout) override;

   private:
    GangLife& life_;
  };

  bool IsOver() const { return killed_ || gave_up_; }
  absl::Status Live();
  absl::Status Start();
  absl::Status ScheduleItem(uint64_t closure);
  absl::Status DoItems();
  absl::Status Disturb();
  absl::Status JoinAll();
  void CheckResults();
  // Every worker is in step in the end, and all copies are what they should be.
  absl::Status Finish();
  absl::Status CheckCopy(int worker);

  const World world_;
  SimActors& actors_;
  const GangPlan& plan_;
  const Options options_;
  LifeWaiter waiter_;
  SequenceRng rng_;
  bool killed_ = false;
  bool gave_up_ = false;
  End end_ = End::kRunning;
  absl::Status error_;
  GangPrograms programs_;
  std::map<uint64_t, RemoteValue> results_;  // by closure
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

}  // namespace cohort
