#pragma once

// The errors with which a group ends. The text of an error does not depend on the rank that finds
// the failure, so all ranks show the same text.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/error.pb.h"

namespace cohort {

// The name and the generation of a group, as error messages show them.
struct GroupName {
  std::string name;         // name of the group, for example "workers"
  uint64_t generation = 0;  // number of the generation; grows each time the group is formed
};

// A rank and its call in the words of DescribeCall().
struct RankCall {
  int rank = 0;
  std::string description;
};

// Returns FAILED_PRECONDITION for two ranks that made different calls number `sequence`: "rank 2,
// call 417: ... against rank 3: ...".
absl::Status MismatchError(uint64_t sequence, RankCall one, RankCall other);

// Returns DEADLINE_EXCEEDED for a call that was not done within `timeout`. `missing` has the ranks
// that have not started the call, in the words of MissingRank(); it is empty if all have started.
absl::Status LateError(uint64_t sequence, const std::string& description, absl::Duration timeout,
                       const std::vector<std::string>& missing);

// Returns the words for a rank that has not started a call: "rank 1 (last done there: call 416,
// all-reduce 'w')".
std::string MissingRank(int rank, const std::string& last_done);

// A call that takes longer than expected, as one rank sees it. The group may still complete the
// call.
struct StalledCall {
  GroupName group;
  int rank = 0;
  uint64_t sequence = 0;
  std::string description;
  absl::Duration under_way;
  // The ranks that have not started the call, or are behind this rank in it.
  std::vector<std::string> missing;
};
// Logs the event collective_stall with the fields of `stalled`.
void LogStalledCall(const StalledCall& stalled);

// Returns the rank that `cause` names as given up in its ErrorDetail, or -1 if it names none.
// `tasks` has the task of each rank; if it is empty, the result is -1.
int RankGivenUp(const absl::Status& cause, const std::vector<proto::TaskRef>& tasks);

// Returns `cause` in the words that every rank shows: "group 'workers' of generation 3 was aborted:
// ...".
absl::Status AbortedBy(const GroupName& group, const absl::Status& cause);

}  // namespace cohort
