#include "coordinator/schedule/scheduler_stats.h"

#include "absl/strings/str_cat.h"

namespace cohort {

std::string SchedulerStats::ToString() const {
  return absl::StrCat("done=", done, " put_back=", put_back, " failed=", failed,
                      " quarantined=", quarantined, " replayed=", replayed,
                      " recoveries=", recoveries, " checkpoints=", checkpoints, " queued=", queued,
                      " in_flight=", in_flight, " workers_ready=", workers_ready);
}

}  // namespace cohort
