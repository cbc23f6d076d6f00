#pragma once

// Sums of the counters that parameter servers report, for the summary of a job and for `coordinator
// ctl status`.

#include <optional>

#include "proto/ps.pb.h"

namespace cohort {

// Adds the counters of one parameter server to `sum`. Maxima are not added: `sum` keeps the
// greatest.
void AddPsStats(const proto::PsStatsResponse& one, proto::PsStatsResponse& sum);

// Returns the use of all dynamic tables, from a sum that AddPsStats has made. Of a mirrored table,
// one copy is counted. Returns nothing if there is no dynamic table.
std::optional<proto::DynamicTableUse> TablesOf(const proto::PsStatsResponse& sum);

}  // namespace cohort
