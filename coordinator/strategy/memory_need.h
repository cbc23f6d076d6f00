#pragma once

// The memory that the homes of a plan's variables need, and the check whether they have it. Values
// and the slots beside them are counted; of a dynamic table, the limit that it was given, or
// nothing, because nobody knows beforehand which rows there will be.

#include <cstdint>
#include <limits>
#include <map>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/cluster/cluster_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Bytes.
struct MemoryNeed {
  int64_t resident = 0;  // values and slots
  int64_t values = 0;    // the whole values alone: what one step brings and takes
  // Returns the need while a step is under way: the pages that it read are kept while others take
  // their place.
  int64_t in_training() const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return values > kMost - resident ? kMost : resident + values;
  }
};

// Returns the need of each home by its task index. A mirrored variable is on each of `homes`, which
// are all of the job. Sums end at the largest number there is.
std::map<int, MemoryNeed> MemoryNeeds(absl::Span<const proto::VariableLayout> variables,
                                      absl::Span<const int> homes);

// The memory that homes may have, in bytes, by task index; a missing home has not said.
struct MemoryLimits {
  Role homes = Role::kPs;
  std::map<int, uint64_t> bytes;
  bool shared = false;  // one machine runs all homes, and each limit is that of all together
};

// Checks the needs. Errors: RESOURCE_EXHAUSTED (CONFIGURATION) naming each home whose values and
// slots do not fit, what it needs, its limit and the remedies.
absl::Status CheckMemory(const std::map<int, MemoryNeed>& needs, const MemoryLimits& limits);

}  // namespace cohort
