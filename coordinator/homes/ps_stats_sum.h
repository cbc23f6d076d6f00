#pragma once

#include <optional>

#include "proto/ps.pb.h"

namespace cohort {

// Adds the counters of one parameter server to the sum.
void AddPsStats(const proto::PsStatsResponse& one, proto::PsStatsResponse& sum);

// Returns the use of dynamic tables according to a sum of AddPsStats, counting only one copy of
// each mirrored table; nothing if there is no table.
std::optional<proto::DynamicTableUse> TablesOf(const proto::PsStatsResponse& sum);

}  // namespace cohort
