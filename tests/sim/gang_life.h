#pragma once

// A coordinator of a job of gangs: id i is item i, so it schedules what is left and joins.

#include <map>

#include "tests/sim/gang_job.h"
#include "tests/sim/job_life.h"

namespace cohort {

// Lives on its actor; what others ask while it waits is marked.
class GangLife final : public JobLife {
 public:
  GangLife(World world, SimActors& actors, const GangPlan& plan, Options options);

 private:
  absl::Status Start() override;
  absl::Status ScheduleItem(uint64_t closure);
  absl::Status DoItems() override;
  absl::Status JoinAll() override;
  absl::Status FetchOne() override;
  void CheckResults();
  bool HasBatchesOf(uint64_t closure, const FetchedTensors& fetched) const;
  // Every worker is in step in the end, and all copies are what they should be.
  absl::Status Finish() override;
  static proto::VariableLayout CopyOf(proto::VariableLayout layout, int worker);
  absl::Status CheckCopy(int worker);
  absl::Status CheckTable(int worker);

  const GangPlan& plan_;
  GangPrograms programs_;
  std::map<uint64_t, RemoteValue> results_;  // by closure
  std::map<int64_t, float> rows_;            // of the table in the end, by key
};

}  // namespace cohort
