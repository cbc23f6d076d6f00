#pragma once

// One process start of the coordinator and the program over it, which does the items of the job.
// It blocks, so it runs on an actor. Several may live at one time; those that were taken over must
// end with an error that names the winner.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "coordinator/api/cluster_coordinator.h"
#include "tests/sim/seed_job.h"
#include "tests/sim/sim_actors.h"

namespace cohort {

// Lives on its actor; what others ask while it waits is marked.
class CoordinatorLife {
 public:
  struct Options {
    std::string host;
    uint64_t incarnation = 0;
    std::string directory;
    ClusterSpec cluster;
    std::function<void(const std::string& what)> violate;
    std::function<void(const std::string& event)> note;
    // Whether an error may come from what was done to the disk.
    std::function<bool()> disk_was_hit;
    // All items are done: nothing strikes from here on.
    std::function<void()> on_all_done;
    // Compares the values of the variables with what was seen from outside. False when another
    // coordinator has taken over.
    std::function<bool(CoordinatorLife&, const std::vector<Tensor>& values)> check;
  };
  enum class End { kRunning, kFinished, kKilled, kSuperseded, kFailed };

  CoordinatorLife(World world, SimActors& actors, const SeedPlan& plan, Options options);

  void Run();

  // From outside.
  void Kill() { killed_ = true; }
  // Every wait ends; what it waited for is its error.
  void GiveUp() { gave_up_ = true; }
  End end() const { return end_; }
  const absl::Status& error() const { return error_; }
  const std::string& host() const { return options_.host; }
  uint64_t incarnation() const { return options_.incarnation; }
  ItemLog& log() { return log_; }
  const SeedPlan& plan() const { return plan_; }
  // Bounds that hold at any moment.
  void CheckBounds();
  const SeedPrograms& programs() const { return programs_; }
  // Whether the error may come from what was done to the disk. What is committed can be read: a
  // job that cannot be put back to its last checkpoint has no excuse.
  bool IsByDisk(const absl::Status& error) const;

 private:
  // Waits on the actor; ends early when the process is killed.
  class LifeWaiter final : public Waiter {
   public:
    explicit LifeWaiter(CoordinatorLife& life) : life_(life) {}
    bool Wait(const Event& event, absl::Duration timeout) override;

   private:
    CoordinatorLife& life_;
  };

  absl::Status Live();
  absl::Status Start();
  absl::Status ResumeOpenItems(const proto::CoordinatorState& left);
  absl::Status DoItems();
  void KeepPace(uint32_t milliseconds_max);
  // A closure, or a round of them.
  absl::Status ScheduleItem(int item);
  absl::Status ScheduleWork(const SeedWork& work);
  absl::Status ScheduleRound(SeedWork next);
  // Which an earlier coordinator has begun; the last one may lack closures.
  absl::Status ResumeOpenRounds(const proto::CoordinatorState& left);
  // Whether it can still be applied.
  bool IsBroken(const ItemLog::RoundCount& round) const;
  absl::Status JoinAll();
  absl::Status Disturb();
  absl::Status Finish();
  // OK when the error is one that the job has to expect.
  absl::Status Expected(const absl::Status& error);
  std::vector<int> ItemsLeft();
  void CheckResults();

  const World world_;
  SimActors& actors_;
  const SeedPlan& plan_;
  const Options options_;
  LifeWaiter waiter_;
  SequenceRng rng_;
  bool killed_ = false;
  bool gave_up_ = false;
  End end_ = End::kRunning;
  absl::Status error_;
  ItemLog log_;
  SeedPrograms programs_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

}  // namespace cohort
