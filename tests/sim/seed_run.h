#pragma once

// One seed of the counters' job. The faults are those of a cluster with parameter servers:
// processes of all roles die, links are cut, disks are slow, full or lose what was not synced,
// single messages are lost, doubled and delayed, and coordinators take over from one another.

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/coordinator_life.h"
#include "tests/sim/job_run.h"
#include "tests/sim/ps_checker.h"
#include "tests/sim/run_checker.h"

namespace cohort {

// Lives on the thread that runs it.
class SeedRun final : public JobRun, public FileWatcher {
 public:
  SeedRun(uint64_t seed, const SeedOptions& options);
  ~SeedRun() override { EndTasks(); }

  SimFate OnRequest(const SimMessage& message) override;
  void OnArrival(const SimMessage& message) override;
  SimFate OnResponse(const SimMessage& message) override;
  absl::Status OnFileCall(const std::string& host, const FileCall& call, size_t* written) override;
  void OnFileDone(const std::string& host, const FileCall& call) override;
  void CrashDisk() override;
  void Pause(absl::Duration duration) override { actors().Pause(duration); }

 private:
  const JobPlan& job_plan() const override { return plan_; }
  Machine MachineOf(const std::string& host) override;
  std::unique_ptr<JobLife> MakeLife(const World& world, JobLife::Options options) override;
  bool IsDone() override;
  void End(bool in_time) override;
  std::string Describe() const override;
  void OnKill(const std::string& host) override { checker_.OnKill(host); }
  void OnStartFailed(TaskId task) override;
  // Sometimes twice, when two supervisors see that one is missing.
  void StartReplacement() override;
  CoordinatorLife* LifeOf(uint64_t incarnation) const;
  bool CheckEnd(CoordinatorLife& life, const std::vector<Tensor>& values);
  void EndLives();
  std::vector<ClosureKnowledge> ClosuresOf(uint64_t coordinator);

  const SeedPlan plan_;
  PsChecker checker_;
  RunChecker runs_;
  std::vector<CoordinatorLife*> typed_lives_;  // as lives() has them
  CoordinatorLife* finisher_ = nullptr;
};

}  // namespace cohort
