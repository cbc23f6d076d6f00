// How long after its deadline a call returns whose task stands still under SIGSTOP.

#include <signal.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/counter.h"
#include "tests/support/stop_child.h"

namespace cohort::bench {

namespace {

constexpr absl::Duration kDeadline = absl::Seconds(1);  // the lease is 5 s

// Milliseconds after the deadline at which Join returns, with an error that names the task.
absl::StatusOr<double> Overdue(LocalRun& run, const ProgramHandle& increment, TaskId task) {
  const pid_t pid = run.tasks().pids().at(task);
  if (!StopChild(pid)) return absl::InternalError("a task is gone");
  // So many that the other worker cannot have ended each before the next was there.
  for (int i = 0; i < 64; ++i) {
    RETURN_IF_ERROR(run.coordinator().Schedule(increment, {}).status());
  }
  const absl::Time start = run.world().clock.Now();
  const absl::Status joined = run.coordinator().Join(kDeadline);
  const absl::Duration took = run.world().clock.Now() - start;
  kill(pid, SIGCONT);
  const proto::TaskRef origin = DetailOf(joined).origin();
  if (!absl::IsDeadlineExceeded(joined) ||
      absl::StrCat(origin.role(), ":", origin.index()) != task.ToString()) {
    return absl::InternalError(
        absl::StrCat(task.ToString(), " was not named: ", joined.ToString()));
  }
  RETURN_IF_ERROR(run.coordinator().Join());
  if (run.coordinator().stats().put_back > 0) return absl::InternalError("a task was lost");
  return absl::ToDoubleMilliseconds(took - kDeadline);
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  LocalRun::Options local;
  local.workers = 2;
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  ASSIGN_OR_RETURN(const Counter counter, MakeCounter(run->coordinator()));
  for (const TaskId task : {TaskId{Role::kPs, 0}, TaskId{Role::kWorker, 1}}) {
    std::vector<double> overdue;
    for (int i = 0; i < repeats; ++i) {
      ASSIGN_OR_RETURN(overdue.emplace_back(), Overdue(*run, counter.increment, task));
    }
    Print({"standstill",
           absl::StrCat(RoleName(task.role), "/after_the_deadline"),
           Median(overdue),
           "ms",
           "bound",
           100,
           {{"longest", *std::max_element(overdue.begin(), overdue.end())},
            {"repeats", static_cast<double>(repeats)}}});
  }
  return absl::OkStatus();
}

}  // namespace

Command StandstillBench() {
  return {"standstill",
          "milliseconds after its deadline at which a call returns whose task is stopped",
          {{"repeats", "5", "of each; the medians are printed"}},
          Run};
}

}  // namespace cohort::bench
