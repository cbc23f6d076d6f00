#include "coordinator/cluster/ps_stats_sum.h"

#include <algorithm>

namespace cohort {

namespace {

void AddBuffer(const proto::BufferStats& one, proto::BufferStats& sum) {
  sum.set_held_bytes(sum.held_bytes() + one.held_bytes());
  sum.set_held_bytes_max(std::max(sum.held_bytes_max(), one.held_bytes_max()));
  sum.set_waiting_bytes(sum.waiting_bytes() + one.waiting_bytes());
  sum.set_waits(sum.waits() + one.waits());
  sum.set_limit_bytes(sum.limit_bytes() + one.limit_bytes());
}

}  // namespace

void AddPsStats(const proto::PsStatsResponse& one, proto::PsStatsResponse& sum) {
  sum.set_pulls(sum.pulls() + one.pulls());
  sum.set_pushes(sum.pushes() + one.pushes());
  sum.set_pulled_slices(sum.pulled_slices() + one.pulled_slices());
  sum.set_applied_slices(sum.applied_slices() + one.applied_slices());
  sum.set_duplicate_slices(sum.duplicate_slices() + one.duplicate_slices());
  sum.set_bytes_out(sum.bytes_out() + one.bytes_out());
  sum.set_bytes_in(sum.bytes_in() + one.bytes_in());
  sum.set_staleness_sum(sum.staleness_sum() + one.staleness_sum());
  sum.set_staleness_max(std::max(sum.staleness_max(), one.staleness_max()));
  sum.set_apply_log_entries(sum.apply_log_entries() + one.apply_log_entries());
  sum.set_resident_bytes(sum.resident_bytes() + one.resident_bytes());
  sum.set_refused_pushes(sum.refused_pushes() + one.refused_pushes());
  sum.set_dropped_slices(sum.dropped_slices() + one.dropped_slices());
  sum.set_copied_bytes(sum.copied_bytes() + one.copied_bytes());
  AddBuffer(one.received(), *sum.mutable_received());
  AddBuffer(one.sent(), *sum.mutable_sent());
  sum.mutable_traffic()->MergeFrom(one.traffic());
  if (one.has_tables()) {
    proto::DynamicTableUse& tables = *sum.mutable_tables();
    tables.set_rows(tables.rows() + one.tables().rows());
    tables.set_bytes(tables.bytes() + one.tables().bytes());
    tables.set_not_admitted(tables.not_admitted() + one.tables().not_admitted());
    tables.set_expired_rows(tables.expired_rows() + one.tables().expired_rows());
    tables.set_evicted_rows(tables.evicted_rows() + one.tables().evicted_rows());
  }
  auto& histogram = *sum.mutable_staleness_histogram();
  histogram.Resize(std::max(histogram.size(), one.staleness_histogram_size()), 0);
  for (int i = 0; i < one.staleness_histogram_size(); ++i) {
    histogram.Set(i, histogram.Get(i) + one.staleness_histogram(i));
  }
}

}  // namespace cohort
