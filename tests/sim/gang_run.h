#pragma once

// One seed of a job whose workers train together. The faults are those of a group: workers are
// killed and come back, stand still, are cut off from everybody or from one another, and single
// messages are lost, doubled and delayed. Coordinators are replaced as well.

#include <map>
#include <memory>
#include <string>

#include "tests/sim/gang_checker.h"
#include "tests/sim/gang_job.h"
#include "tests/sim/job_run.h"

namespace cohort {

// Lives on the thread that runs it.
class GangRun final : public JobRun {
 public:
  GangRun(uint64_t seed, const SeedOptions& options);
  ~GangRun() override;

  SimFate OnRequest(const SimMessage& message) override;
  void OnArrival(const SimMessage& message) override;
  SimFate OnResponse(const SimMessage& message) override;
  void Stop(const std::string& host, absl::Duration duration) override;
  bool Remove(const std::string& host, absl::Duration absence) override;

 private:
  const JobPlan& job_plan() const override { return plan_; }
  int workers_min() const override { return plan_.gang_min; }
  Machine MachineOf(const std::string& host) override;
  std::unique_ptr<JobLife> MakeLife(const World& world, JobLife::Options options) override;
  bool IsDone() override;
  void End(bool in_time) override;
  std::string Describe() const override;
  void OnKill(const std::string& host) override;
  void OnDisturbance(absl::Duration duration) override { checker_.OnDisturbance(duration); }
  void StartReplacement() override;
  void StopFaults() override;
  // Of a message that one of the two sends or receives while it stands still.
  absl::Duration DelayByStop(const SimMessage& message) const;

  const GangPlan plan_;
  GangChecker checker_;
  std::map<std::string, absl::Time> stopped_until_;  // by host
  bool all_done_ = false;
};

}  // namespace cohort
