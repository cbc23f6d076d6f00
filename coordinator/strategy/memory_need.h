#pragma once

// The memory that the homes of a plan's variables need, and a check whether they have that much.
// The values of variables and their optimizer slots are counted. A dynamic table counts with its
// memory limit. A table without a limit is not counted, because nobody knows beforehand how many
// rows it will have.

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
  int64_t resident = 0;  // bytes of the values and slots of all variables
  int64_t values = 0;    // bytes of the values alone, without dynamic tables
  // Returns the memory that the home needs while a step is under way. Then the pages of the values
  // that the step has read are kept, while new pages replace them.
  int64_t in_training() const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return values > kMost - resident ? kMost : resident + values;
  }
};

// Returns the memory that each home needs, by its task index. `homes` lists all homes of the job;
// each of them has a copy of every mirrored variable. Sums that overflow become the largest int64.
std::map<int, MemoryNeed> MemoryNeeds(absl::Span<const proto::VariableLayout> variables,
                                      absl::Span<const int> homes);

// The memory that each home may use, in bytes, by task index. If a home is missing, it has not
// reported its limit.
struct MemoryLimits {
  Role homes = Role::kPs;
  std::map<int, uint64_t> bytes;
  bool shared = false;  // if true, one machine runs all homes, and each limit is for all of them
};

// Checks that every home may use the memory that it needs for values and slots. Errors:
// RESOURCE_EXHAUSTED (CONFIGURATION) naming each home that lacks memory, the bytes that it needs,
// its limit, and the remedies.
absl::Status CheckMemory(const std::map<int, MemoryNeed>& needs, const MemoryLimits& limits);

}  // namespace cohort
