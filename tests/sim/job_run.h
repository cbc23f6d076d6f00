#pragma once

// One seed: a cluster, a job and faults, from start to end, and what was violated. What all jobs
// have in common: processes with their views of the world, which die and are started again, cuts,
// and coordinators that follow one another.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/fault_injector.h"
#include "tests/sim/job_life.h"
#include "tests/sim/progress_check.h"
#include "tests/sim/seed_result.h"
#include "tests/sim/sim_actors.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/stopping_executor.h"
#include "tests/support/test_cluster.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

inline constexpr char kRecoveryDirectory[] = "/recovery";

// Lives on the thread that runs it. Whoever derives from it calls StartTasks when its own members
// are there, and EndTasks before they go.
class JobRun : public SimWatcher, public FaultTarget {
 public:
  SeedResult Run();

  std::vector<std::string> Alive(absl::string_view role) const override;
  void Kill(const std::string& host) override;
  void Cut(const std::string& from, const std::string& to, bool both_ways,
           absl::Duration duration) override;
  void Isolate(const std::string& host, absl::Duration duration) override;
  void TakeOver() override;
  void CrashDisk() override {}  // none of every job's faults, as the next three
  void Pause(absl::Duration) override {}
  void Stop(const std::string&, absl::Duration) override {}
  bool Remove(const std::string&, absl::Duration) override { return false; }
  void Later(absl::Duration delay, std::function<void()> strike) override {
    sim_.CallAt(sim_.Now() + delay, std::move(strike));
  }

 protected:
  struct Options {
    FaultInjector::Options faults;
    SimNetwork::Options network;
    size_t events_kept = 0;
    uint64_t events_max = 0;     // a run that ends has far fewer
    absl::Duration time_max;     // simulated
    size_t lives_max = 0;        // of coordinators
    uint64_t absent_ms_max = 0;  // of a process that was killed
  };
  // What a process start runs on.
  struct Machine {
    absl::Duration delay;          // of a task, at most
    FileWatcher* files = nullptr;  // of its calls of the file system
  };
  // A process start and its view of the world.
  struct Process {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<MemoryFileSystem> own_disk;  // none: the shared one
    std::unique_ptr<SimFiles> files;             // none: nobody watches them
    std::unique_ptr<StoppingExecutor> executor;
  };

  JobRun(uint64_t seed, Options options);
  ~JobRun() override = default;

  virtual const JobPlan& job_plan() const = 0;
  virtual int workers_min() const { return 1; }  // that can work
  virtual Machine MachineOf(const std::string& host) = 0;
  virtual std::unique_ptr<JobLife> MakeLife(const World& world, JobLife::Options options) = 0;
  // Whether it is over; nothing was violated so far.
  virtual bool IsDone() = 0;
  // It is over, or should be; `in_time` says which. Everything ends, and is checked.
  virtual void End(bool in_time) = 0;
  // For people.
  virtual std::string Describe() const = 0;
  virtual void OnKill(const std::string& host) = 0;
  // Links are cut, or hosts stand still, so long.
  virtual void OnDisturbance(absl::Duration) {}
  // A task ended as it started.
  virtual void OnStartFailed(TaskId task);
  // As a supervisor does it.
  virtual void StartReplacement() { StartCoordinator(); }
  // All items are done.
  virtual void StopFaults();

  void StartTasks();
  void StartTask(TaskId task);
  void EndTasks();
  void StartCoordinator();
  bool HasTasks() const { return tasks_ != nullptr; }
  bool IsRunning() const;
  bool HasLifeAhead() const { return starts_ahead_ > 0; }
  // Of coordinators that have ended since it was asked last.
  void CheckEnds();
  void Violate(const std::string& what);
  void Note(const std::string& event) { sim_.Trace(event); }

  SimWorld& sim() { return sim_; }
  const SimWorld& sim() const { return sim_; }
  MemoryFileSystem& disk() { return disk_; }
  FaultInjector& injector() { return injector_; }
  const FaultInjector& injector() const { return injector_; }
  SimActors& actors() { return actors_; }
  Process& ProcessOf(const std::string& host) { return *present_.at(host); }
  bool IsDown(const std::string& host) const { return down_.count(host) > 0; }
  void SetDown(const std::string& host) { down_.insert(host); }
  const std::vector<std::unique_ptr<JobLife>>& lives() const { return lives_; }
  bool HasViolations() const { return !result_.ok(); }

 private:
  World WorldOf(const std::string& host);
  void CheckProgress();
  bool IsOver();

  const Options options_;
  SeedResult result_;
  SimWorld sim_;
  MemoryFileSystem disk_;
  SimNetwork network_;
  FaultInjector injector_;
  std::optional<ProgressCheck> progress_;  // of runs with one partition
  SimActors actors_;
  std::vector<std::unique_ptr<Process>> processes_;  // of all starts; they outlive the tasks
  std::map<std::string, Process*> present_;          // by host
  std::set<std::string> down_;                       // killed, and not started again yet
  std::unique_ptr<TestCluster> tasks_;
  std::vector<std::unique_ptr<JobLife>> lives_;
  int starts_ahead_ = 0;  // of coordinators that were killed
  std::set<const JobLife*> checked_;
};

}  // namespace cohort
