#include "worker/collective/collective_errors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

absl::Status MismatchError(uint64_t sequence, RankCall one, RankCall other) {
  // The lower rank is named first, so that all ranks have the same words for one mismatch.
  if (one.rank > other.rank) std::swap(one, other);
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("rank ", one.rank, ", call ", sequence, ": ", one.description,
                                " against rank ", other.rank, ": ", other.description,
                                "; the ranks of a group must make the same calls in one order"),
                   proto::APPLICATION);
}

absl::Status LateError(uint64_t sequence, const std::string& description, absl::Duration timeout,
                       const std::vector<std::string>& missing) {
  const std::string who = missing.empty()
                              ? "all ranks have started it"
                              : absl::StrCat("not started by ", absl::StrJoin(missing, ", "));
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("call ", sequence, ", ", description, ", is not done within ",
                                absl::FormatDuration(timeout), "; ", who),
                   proto::TRANSIENT);
}

std::string MissingRank(int rank, const std::string& last_done) {
  return absl::StrCat("rank ", rank, " (last done there: ", last_done, ")");
}

void LogStalledCall(const StalledCall& stalled) {
  Log(LogLevel::kWarning, "collective_stall",
      {{"group", stalled.group.name},
       {"generation", stalled.group.generation},
       {"rank", stalled.rank},
       {"call", absl::StrCat(stalled.sequence, ", ", stalled.description)},
       {"under_way", absl::FormatDuration(stalled.under_way)},
       {"not_started_by",
        stalled.missing.empty() ? "none" : absl::StrJoin(stalled.missing, ", ")}});
}

int RankGivenUp(const absl::Status& cause, const std::vector<proto::TaskRef>& tasks) {
  const proto::ErrorDetail detail = DetailOf(cause);
  if (!detail.given_up()) return -1;
  // The cause names a task that is given up; the rank is this task's position in `tasks`.
  for (size_t rank = 0; rank < tasks.size(); ++rank) {
    if (TaskName(tasks[rank]) == TaskName(detail.origin())) return static_cast<int>(rank);
  }
  return -1;
}

absl::Status AbortedBy(const GroupName& group, const absl::Status& cause) {
  return Annotate(cause, absl::StrCat("group '", group.name, "' of generation ", group.generation,
                                      " was aborted"));
}

}  // namespace cohort
