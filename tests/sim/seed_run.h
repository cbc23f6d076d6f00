#pragma once

// One seed: a cluster, a job and faults, from start to end, and what was violated.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/memory_file_system.h"
#include "common/base/sim_world.h"
#include "tests/sim/busy_executor.h"
#include "tests/sim/coordinator_life.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/ps_checker.h"
#include "tests/sim/run_checker.h"
#include "tests/sim/seed_result.h"
#include "tests/sim/sim_actors.h"
#include "tests/sim/sim_files.h"
#include "tests/support/test_cluster.h"

namespace cohort {

// Lives on the thread that runs it.
class SeedRun final : public SimWatcher, public FileWatcher, public FaultTarget {
 public:
  SeedRun(uint64_t seed, const SeedOptions& options);
  ~SeedRun() override;
  SeedResult Run();

  SimFate OnRequest(const SimMessage& message) override;
  void OnArrival(const SimMessage& message) override;
  SimFate OnResponse(const SimMessage& message) override;
  absl::Status OnFileCall(const std::string& host, const FileCall& call,
                          size_t* written) override;
  void OnFileDone(const std::string& host, const FileCall& call) override;
  std::vector<std::string> Alive(absl::string_view role) const override;
  void Kill(const std::string& host) override;
  void Cut(const std::string& from, const std::string& to, bool both_ways,
           absl::Duration duration) override;
  void Isolate(const std::string& host, absl::Duration duration) override;
  void TakeOver() override;
  void CrashDisk() override;
  void Pause(absl::Duration duration) override { actors_.Pause(duration); }
  void Stop(const std::string&, absl::Duration) override {}  // none of this job's faults
  void Later(absl::Duration delay, std::function<void()> strike) override {
    sim_.CallAt(sim_.Now() + delay, std::move(strike));
  }

 private:
  // A process start and its view of the world.
  struct Process {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<MemoryFileSystem> own_disk;  // none: the shared one
    std::unique_ptr<SimFiles> files;
    std::unique_ptr<BusyExecutor> executor;
  };

  World WorldOf(const std::string& host);
  TestCluster::Options TaskOptions();
  void StartTask(TaskId task);
  void OnStartFailed(TaskId task);
  void StartCoordinator();
  // As a supervisor does it: sometimes twice, when two of them see that one is missing.
  void StartReplacement();
  CoordinatorLife* LifeOf(uint64_t incarnation) const;
  bool IsOver();
  bool IsRunning() const;
  void StopFaults();
  bool CheckEnd(CoordinatorLife& life, const std::vector<Tensor>& values);
  void CheckLosers();
  void EndLives();
  std::vector<ClosureKnowledge> ClosuresOf(uint64_t coordinator);
  void Violate(const std::string& what);
  void Note(const std::string& event);

  const uint64_t seed_;
  const SeedOptions options_;
  SeedResult result_;
  SimWorld sim_;
  MemoryFileSystem disk_;
  SimNetwork network_;
  FaultInjector injector_;
  const SeedPlan plan_;
  PsChecker checker_;
  RunChecker runs_;
  SimActors actors_;
  std::vector<std::unique_ptr<Process>> processes_;  // of all starts; they outlive the tasks
  std::map<std::string, Process*> present_;          // by host
  std::set<std::string> down_;                       // killed, and not started again yet
  std::unique_ptr<TestCluster> tasks_;
  std::vector<std::unique_ptr<CoordinatorLife>> lives_;
  CoordinatorLife* finisher_ = nullptr;
  int starts_ahead_ = 0;  // of coordinators that were killed
  std::set<const CoordinatorLife*> checked_;
};

}  // namespace cohort
