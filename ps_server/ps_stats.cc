#include "ps_server/ps_stats.h"

#include <algorithm>

namespace cohort {

void PsStats::AddPull(const Pull& pull) {
  MutexLock lock(mutex_);
  counters_.set_pulls(counters_.pulls() + 1);
  counters_.set_pulled_slices(counters_.pulled_slices() + pull.slices);
  counters_.set_bytes_out(counters_.bytes_out() + pull.bytes);
}

void PsStats::AddPush(const Push& push) {
  MutexLock lock(mutex_);
  counters_.set_pushes(counters_.pushes() + 1);
  counters_.set_applied_slices(counters_.applied_slices() + push.applied);
  counters_.set_duplicate_slices(counters_.duplicate_slices() + push.duplicates);
  counters_.set_bytes_in(counters_.bytes_in() + push.bytes);
  counters_.set_staleness_sum(counters_.staleness_sum() + push.staleness_sum);
  counters_.set_staleness_max(std::max(counters_.staleness_max(), push.staleness_max));
}

void PsStats::AddRefusedPush() {
  MutexLock lock(mutex_);
  counters_.set_refused_pushes(counters_.refused_pushes() + 1);
}

void PsStats::FillIn(proto::PsStatsResponse& response) const {
  MutexLock lock(mutex_);
  response.MergeFrom(counters_);
}

}  // namespace cohort
