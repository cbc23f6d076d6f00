#pragma once

// The memory that the homes of a plan's variables need, and the check whether the homes have it.
// The values of variables and the slots beside them are counted. A dynamic table counts with its
// memory limit, or not at all without a limit, because nobody knows beforehand how many rows it
// will have.

#include <cstdint>
#include <limits>
#include <map>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/cluster/cluster_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// The memory that one home needs, in bytes.
struct MemoryNeed {
  int64_t resident = 0;  // values and slots of all variables
  int64_t values = 0;    // values alone, without dynamic tables: what one step reads and replaces
  // Returns the need while a step is under way: the pages that the step read are kept while new
  // pages replace them.
  int64_t in_training() const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return values > kMost - resident ? kMost : resident + values;
  }
};

// Returns the need of each home by its task index. A mirrored variable is on each of `homes`, which
// are all homes of the job. Sums saturate at the largest int64.
std::map<int, MemoryNeed> MemoryNeeds(absl::Span<const proto::VariableLayout> variables,
                                      absl::Span<const int> homes);

// The memory that homes may use, in bytes, by task index. A home that is missing has not reported
// its limit.
struct MemoryLimits {
  Role homes = Role::kPs;
  std::map<int, uint64_t> bytes;
  bool shared = false;  // one machine runs all homes, and each limit applies to all homes together
};

// Checks the needs. Errors: RESOURCE_EXHAUSTED (CONFIGURATION) naming each home whose values and
// slots do not fit, the bytes that the home needs, its limit and the remedies.
absl::Status CheckMemory(const std::map<int, MemoryNeed>& needs, const MemoryLimits& limits);

}  // namespace cohort
