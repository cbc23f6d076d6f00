#pragma once

// The causes for which a group ends, in words. The words do not depend on the rank that finds them,
// so that all ranks show the same.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/error.pb.h"

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

// "rank 1 (last done there: call 416, all-reduce 'w')".
std::string MissingRank(int rank, const std::string& last_done);

// A call that takes long, as one rank sees it; the group may still complete it.
struct StalledCall {
  GroupName group;
  int rank = 0;
  uint64_t sequence = 0;
  std::string description;
  absl::Duration under_way;
  std::vector<std::string> missing;  // who has not started it, or has not come as far
};
// The event collective_stall.
void LogStalledCall(const StalledCall& stalled);

// The rank that the cause says is given up (ErrorDetail); -1: none. `tasks` are those of the ranks,
// or none.
int RankGivenUp(const absl::Status& cause, const std::vector<proto::TaskRef>& tasks);

// The cause as every rank shows it: "group 'workers' of generation 3 was aborted: ...".
absl::Status AbortedBy(const GroupName& group, const absl::Status& cause);

}  // namespace cohort
