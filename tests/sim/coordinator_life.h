#pragma once

// A coordinator of the counters' job: it does the items, goes on with what others have begun, and
// knows which errors it has to expect.

#include <functional>
#include <string>
#include <vector>

#include "tests/sim/job_life.h"
#include "tests/sim/seed_job.h"

namespace cohort {

// Lives on its actor; what others ask while it waits is marked.
class CoordinatorLife final : public JobLife {
 public:
  struct Checks {
    // Whether an error may come from what was done to the disk.
    std::function<bool()> disk_was_hit;
    // Compares the values of the variables with what was seen from outside. False when another
    // coordinator has taken over.
    std::function<bool(CoordinatorLife&, const std::vector<Tensor>& values)> check;
  };
  CoordinatorLife(World world, SimActors& actors, const SeedPlan& plan, Options options,
                  Checks checks);

  // From outside.
  ItemLog& log() { return log_; }
  const SeedPrograms& programs() const { return programs_; }
  // Whether the error may come from what was done to the disk. What is committed can be read: a
  // job that cannot be put back to its last checkpoint has no excuse.
  bool MayEndWith(const absl::Status& error) const override;

 private:
  absl::Status Start() override;
  absl::Status ResumeOpenItems(const proto::CoordinatorState& left);
  absl::Status DoItems() override;
  // A closure, or a round of them.
  absl::Status ScheduleItem(int item);
  absl::Status ScheduleWork(const SeedWork& work);
  absl::Status ScheduleRound(SeedWork next);
  // Which an earlier coordinator has begun; the last one may lack closures.
  absl::Status ResumeOpenRounds(const proto::CoordinatorState& left);
  // Whether it can still be applied.
  bool IsBroken(const ItemLog::RoundCount& round) const;
  absl::Status JoinAll() override;
  absl::Status FetchOne() override;
  absl::Status Finish() override;
  // OK when the error is one that the job has to expect.
  absl::Status Expected(const absl::Status& error);
  std::vector<int> ItemsLeft();
  void CheckResults();

  const SeedPlan& plan_;
  const Checks checks_;
  ItemLog log_;
  SeedPrograms programs_;
};

}  // namespace cohort
