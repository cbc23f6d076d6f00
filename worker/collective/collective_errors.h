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

// The name of a group and its generation, for people.
struct GroupName {
  std::string name;         // "workers"
  uint64_t generation = 0;  // grows with each re-forming of the group
};

// A rank's call in DescribeCall's words.
struct RankCall {
  int rank = 0;
  std::string description;
};

// Returns FAILED_PRECONDITION: "rank 2, call 417: ... against rank 3: ...".
absl::Status MismatchError(uint64_t sequence, RankCall one, RankCall other);

// Returns DEADLINE_EXCEEDED naming the ranks that have not started the call; `missing` is empty if
// all have.
absl::Status LateError(uint64_t sequence, const std::string& description, absl::Duration timeout,
                       const std::vector<std::string>& missing);

// Returns "rank 1 (last done there: call 416, all-reduce 'w')".
std::string MissingRank(int rank, const std::string& last_done);

// A call that takes long, as one rank sees it; the group may still complete it.
struct StalledCall {
  GroupName group;
  int rank = 0;
  uint64_t sequence = 0;
  std::string description;
  absl::Duration under_way;
  // ranks that have not started the call, or have not come as far
  std::vector<std::string> missing;
};
// Logs the event collective_stall.
void LogStalledCall(const StalledCall& stalled);

// Returns the rank that the cause says is given up (ErrorDetail), or -1. `tasks` are those of the
// ranks, or empty.
int RankGivenUp(const absl::Status& cause, const std::vector<proto::TaskRef>& tasks);

// Returns the cause as every rank shows it: "group 'workers' of generation 3 was aborted: ...".
absl::Status AbortedBy(const GroupName& group, const absl::Status& cause);

}  // namespace cohort
