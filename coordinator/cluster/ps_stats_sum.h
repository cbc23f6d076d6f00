#pragma once

#include "proto/ps.pb.h"

namespace cohort {

// What several parameter servers count, together: adds one of them.
void AddPsStats(const proto::PsStatsResponse& one, proto::PsStatsResponse& sum);

}  // namespace cohort
