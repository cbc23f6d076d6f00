#include "ps_server/service/ps_stats.h"

#include <algorithm>
#include <bit>

namespace cohort {

void PsStats::AddPull(const Pull& pull) {
  MutexLock lock(mutex_);
  counters_.set_pulls(counters_.pulls() + 1);
  counters_.set_pulled_slices(counters_.pulled_slices() + pull.slices);
  counters_.set_bytes_out(counters_.bytes_out() + pull.bytes);
  AddTrafficLocked(pull.traffic);
}

void PsStats::AddPush(const Push& push) {
  MutexLock lock(mutex_);
  counters_.set_pushes(counters_.pushes() + 1);
  counters_.set_applied_slices(counters_.applied_slices() + push.staleness.size());
  counters_.set_duplicate_slices(counters_.duplicate_slices() + push.duplicates);
  counters_.set_dropped_slices(counters_.dropped_slices() + push.dropped);
  counters_.set_bytes_in(counters_.bytes_in() + push.bytes);
  for (const uint64_t staleness : push.staleness) AddStalenessLocked(staleness);
  AddTrafficLocked(push.traffic);
}

void PsStats::AddStalenessLocked(uint64_t staleness) {
  counters_.set_staleness_sum(counters_.staleness_sum() + staleness);
  counters_.set_staleness_max(std::max(counters_.staleness_max(), staleness));
  // Bucket 0 of the histogram counts pushes of staleness 0, and bucket k counts pushes whose
  // staleness is between 2^(k-1) and 2^k - 1.
  const int bucket = std::bit_width(staleness);
  auto& histogram = *counters_.mutable_staleness_histogram();
  while (histogram.size() <= bucket) histogram.Add(0);
  histogram.Set(bucket, histogram.Get(bucket) + 1);
}

void PsStats::AddTrafficLocked(const std::vector<SliceBytes>& traffic) {
  for (const SliceBytes& slice : traffic) traffic_[slice.slice_id] += slice.bytes;
}

void PsStats::AddRefusedPush() {
  MutexLock lock(mutex_);
  counters_.set_refused_pushes(counters_.refused_pushes() + 1);
}

void PsStats::FillIn(proto::PsStatsResponse& response) const {
  MutexLock lock(mutex_);
  response.MergeFrom(counters_);
  for (const auto& [slice_id, bytes] : traffic_) {
    proto::SliceTraffic& slice = *response.add_traffic();
    slice.set_slice_id(slice_id);
    slice.set_bytes(bytes);
  }
}

}  // namespace cohort
