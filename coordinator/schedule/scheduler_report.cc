// The scheduler's descriptions of itself for people.

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {
// Upper bound of the closures in a description: a long list helps nobody.
constexpr size_t kClosuresShownMax = 3;
}  // namespace

std::string SchedulerStats::ToString() const {
  return absl::StrCat("done=", done, " put_back=", put_back, " failed=", failed,
                      " quarantined=", quarantined, " replayed=", replayed,
                      " recoveries=", recoveries, " checkpoints=", checkpoints, " queued=", queued,
                      " in_flight=", in_flight, " workers_ready=", workers_ready);
}

Scheduler::Stats Scheduler::stats() const {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.queued = queue_.queued() + queue_.waiting();
  stats.in_flight = queue_.in_flight();
  for (const auto& [worker, slots] : slots_.all()) stats.workers_ready += slots.ready ? 1 : 0;
  return stats;
}

std::map<int, WorkerStats> Scheduler::workers() const {
  MutexLock lock(mutex_);
  return slots_.stats();
}

std::string Scheduler::DescribeWait() const {
  MutexLock lock(mutex_);
  std::string text =
      absl::StrCat(queue_.queued(), " closures queued, ", queue_.in_flight(), " in flight");
  if (queue_.waiting() > 0) {
    absl::StrAppend(&text, ", ", queue_.waiting(), " waiting for results of others");
  }
  if (!paused_.empty()) absl::StrAppend(&text, "; paused: ", paused_);
  if (!redo_.HasRoom()) {
    absl::StrAppend(&text, "; ", redo_.size(), " closures wait for a checkpoint to cover them");
  }
  if (snapshots_.before.has_value()) {
    absl::StrAppend(&text, "; those from ", snapshots_.before->value,
                    " on wait for the snapshots of a checkpoint");
  }
  if (IsTooFarAheadLocked()) {
    absl::StrAppend(&text, "; those from ", queue_.Front()->id.value, " on are too far ahead of ",
                    queue_.watermark().value, ", and may be ", options_.steps_ahead_max,
                    " steps ahead");
  }
  size_t shown = 0;
  for (const auto& [id, run] : in_flight_) {
    if (shown++ == kClosuresShownMax) break;
    absl::StrAppend(&text, shown == 1 ? "; the oldest: " : ", ", id.value,
                    " on worker:", run.worker());
  }
  for (const auto& [worker, slots] : slots_.all()) {
    absl::StrAppend(&text, "; worker:", worker, slots.ready ? " serving" : " lost", ", ",
                    slots.in_flight, " in flight");
  }
  if (slots_.all().empty()) absl::StrAppend(&text, "; no worker has been there");
  absl::StrAppend(&text, "; calls that wait: ", waiting_.ToString());
  return text;
}

}  // namespace cohort
