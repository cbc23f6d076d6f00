#pragma once

#include <optional>

#include "proto/ps.pb.h"

namespace cohort {

// Adds the counters of one parameter server to the sum.
void AddPsStats(const proto::PsStatsResponse& one, proto::PsStatsResponse& sum);

// Returns what there is of dynamic tables in such a sum, each copy of a mirrored one left out but
// one; nothing without any table.
std::optional<proto::DynamicTableUse> TablesOf(const proto::PsStatsResponse& sum);

}  // namespace cohort
