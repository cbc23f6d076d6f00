#pragma once

// What one seed is asked and what it says, whatever its job.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/fault_table.h"

namespace cohort {

struct SeedResult {
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  absl::Duration simulated;
  FaultTable table;
  std::string plan;                     // for people
  std::deque<std::string> last_events;  // where they were asked for
  bool ok() const { return violations.empty(); }
};

struct SeedOptions {
  SeedJob job = SeedJob::kCounters;
  std::vector<Fault> faults;  // empty: all
  bool parts = false;         // one partition of one pair, and nothing else (progress_check.h)
  size_t events_kept = 0;
};

SeedResult RunSeed(uint64_t seed, const SeedOptions& options);

}  // namespace cohort
