#include "coordinator/homes/ps_stats_sum.h"

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

void AddTables(const proto::DynamicTableUse& one, proto::DynamicTableUse& sum) {
  sum.set_rows(sum.rows() + one.rows());
  sum.set_bytes(sum.bytes() + one.bytes());
  sum.set_not_admitted(sum.not_admitted() + one.not_admitted());
  sum.set_expired_rows(sum.expired_rows() + one.expired_rows());
  sum.set_evicted_rows(sum.evicted_rows() + one.evicted_rows());
}

// Combines the counters of one home's copies of mirrored tables with those of other homes. All
// copies are equal, except that a copy that is behind has counted less, so the greater counter is
// taken.
void TakeMirrored(const proto::DynamicTableUse& one, proto::DynamicTableUse& of_all) {
  of_all.set_rows(std::max(of_all.rows(), one.rows()));
  of_all.set_bytes(std::max(of_all.bytes(), one.bytes()));
  of_all.set_not_admitted(std::max(of_all.not_admitted(), one.not_admitted()));
  of_all.set_expired_rows(std::max(of_all.expired_rows(), one.expired_rows()));
  of_all.set_evicted_rows(std::max(of_all.evicted_rows(), one.evicted_rows()));
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
  if (one.has_tables()) AddTables(one.tables(), *sum.mutable_tables());
  if (one.has_mirrored_tables()) {
    TakeMirrored(one.mirrored_tables(), *sum.mutable_mirrored_tables());
  }
  auto& histogram = *sum.mutable_staleness_histogram();
  // Two histograms may differ in length, because empty buckets at the end are left out.
  histogram.Resize(std::max(histogram.size(), one.staleness_histogram_size()), 0);
  for (int i = 0; i < one.staleness_histogram_size(); ++i) {
    histogram.Set(i, histogram.Get(i) + one.staleness_histogram(i));
  }
}

std::optional<proto::DynamicTableUse> TablesOf(const proto::PsStatsResponse& sum) {
  if (!sum.has_tables() && !sum.has_mirrored_tables()) return std::nullopt;
  proto::DynamicTableUse all = sum.tables();
  // The counters of `mirrored_tables` count one copy of each mirrored table, so they are added like
  // the use of other tables.
  AddTables(sum.mirrored_tables(), all);
  return all;
}

}  // namespace cohort
