#pragma once

// The causes for which a group ends, in words. The words do not depend on the rank that finds them,
// so that all ranks show the same.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cohort {

// Which group of which generation, for people.
struct GroupName {
  std::string name;         // "workers"
  uint64_t generation = 0;  // of the group; grows with each re-forming
};

// One rank's call, as DescribeCall says it.
struct RankCall {
  int rank = 0;
  std::string description;
};

// FAILED_PRECONDITION: "rank 2, call 417: ... against rank 3: ...".
absl::Status MismatchError(uint64_t sequence, RankCall one, RankCall other);

// DEADLINE_EXCEEDED naming the ranks that have not started the call. None: they all have.
absl::Status LateError(uint64_t sequence, const std::string& description, absl::Duration timeout,
                       const std::vector<std::string>& missing);

// The cause as every rank shows it: "group 'workers' of generation 3 was aborted: ...".
absl::Status AbortedBy(const GroupName& group, const absl::Status& cause);

}  // namespace cohort
