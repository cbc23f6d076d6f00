#pragma once

// What a variable must hold when a run has ended: what is done is in every slice, once, in one
// update a round, and nothing else but what was cancelled.

#include <functional>
#include <string>

#include "coordinator/api/variable.h"
#include "tests/sim/ps_checker.h"
#include "tests/sim/seed_job.h"

namespace cohort {

struct EndCheck {
  const SeedPlan& plan;
  const PsChecker& ps;
  std::function<void(const std::string& what)> violate;

  void CheckVariable(ItemLog& log, const Variable& variable, const Tensor& value) const;

 private:
  void CheckClosures(ItemLog& log, const std::string& variable, const SliceModel& slice,
                     const std::string& where) const;
  void CheckRounds(ItemLog& log, const std::string& variable, const SliceModel& slice,
                   const std::string& where) const;
};

}  // namespace cohort
