#pragma once

// One seed of a job whose workers train together: a cluster, the job and faults, from start to end,
// and what was violated. The faults are those of a group: workers are killed and come back, stand
// still, are cut off from everybody or from one another, and single messages are lost, doubled and
// delayed. Coordinators are replaced as well.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/memory_file_system.h"
#include "common/base/sim_world.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/gang_checker.h"
#include "tests/sim/gang_life.h"
#include "tests/sim/seed_result.h"
#include "tests/sim/sim_actors.h"
#include "tests/sim/stopping_executor.h"
#include "tests/support/test_cluster.h"

namespace cohort {

// Lives on the thread that runs it.
class GangRun final : public SimWatcher, public FaultTarget {
 public:
  GangRun(uint64_t seed, const SeedOptions& options);
  ~GangRun() override;
  SeedResult Run();

  SimFate OnRequest(const SimMessage& message) override;
  void OnArrival(const SimMessage& message) override;
  SimFate OnResponse(const SimMessage& message) override;
  std::vector<std::string> Alive(absl::string_view role) const override;
  void Kill(const std::string& host) override;
  void Cut(const std::string& from, const std::string& to, bool both_ways,
           absl::Duration duration) override;
  void Isolate(const std::string& host, absl::Duration duration) override;
  void TakeOver() override;
  void CrashDisk() override {}  // none of this job's faults, as the next one
  void Pause(absl::Duration) override {}
  void Stop(const std::string& host, absl::Duration duration) override;
  void Later(absl::Duration delay, std::function<void()> strike) override {
    sim_.CallAt(sim_.Now() + delay, std::move(strike));
  }

 private:
  // A process start and its view of the world.
  struct Process {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<MemoryFileSystem> own_disk;  // none: the shared one
    std::unique_ptr<StoppingExecutor> executor;
  };

  World WorldOf(const std::string& host);
  TestCluster::Options TaskOptions();
  void StartCoordinator();
  bool IsOver();
  bool IsRunning() const;
  void CheckEnds();
  void StopFaults();
  // Of a message that one of the two sends or receives while it stands still.
  absl::Duration DelayByStop(const SimMessage& message) const;
  void Violate(const std::string& what);
  void Note(const std::string& event) { sim_.Trace(event); }

  const SeedOptions options_;
  SeedResult result_;
  SimWorld sim_;
  MemoryFileSystem disk_;
  SimNetwork network_;
  FaultInjector injector_;
  const GangPlan plan_;
  GangChecker checker_;
  SimActors actors_;
  std::vector<std::unique_ptr<Process>> processes_;  // of all starts; they outlive the tasks
  std::map<std::string, Process*> present_;          // by host
  std::set<std::string> down_;                       // killed, and not started again yet
  std::map<std::string, absl::Time> stopped_until_;  // by host
  std::unique_ptr<TestCluster> tasks_;
  std::vector<std::unique_ptr<GangLife>> lives_;
  bool all_done_ = false;
  int starts_ahead_ = 0;  // of coordinators that were killed
  std::set<const GangLife*> checked_;
};

}  // namespace cohort
