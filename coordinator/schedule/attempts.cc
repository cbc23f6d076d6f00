#include "coordinator/schedule/attempts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// Returns whether both references name the same process of the same worker.
bool IsSame(const proto::TaskRef& one, const proto::TaskRef& other) {
  return one.index() == other.index() && one.incarnation() == other.incarnation();
}

}  // namespace

absl::Duration AttemptRecord::AddSilence(absl::Time start, absl::Time now) {
  if (silences_++ == 0) {
    silent_since_ = start;
    silent_for_ = absl::ZeroDuration();
  }
  // Between the calls the closure may have waited for another worker. A call that ran out of time
  // lasted as long as it may, even if the clock says less.
  silent_for_ = std::max(silent_for_ + (now - start), now - silent_since_);
  return silent_for_;
}

absl::Status AttemptRecord::Silence(absl::Duration silence_max) const {
  // A few unanswered set-up calls do not end the closure: the calls' messages may have been lost
  // together with their connections.
  const bool ends = silences_ >= kSilentCallsMin && silent_for_ >= silence_max;
  return ends ? silence_ : absl::OkStatus();
}

void AttemptRecord::AddUnanswered(uint32_t attempt, const proto::TaskRef& process,
                                  const absl::Status& cause) {
  const auto known = std::find_if(unanswered_.begin(), unanswered_.end(),
                                  [&](const Unanswered& u) { return IsSame(u.process, process); });
  // A worker process ends only once. So it has one entry here, with the attempt of its last
  // unanswered call.
  if (known != unanswered_.end()) {
    known->attempt = attempt;
  } else {
    unanswered_.push_back({attempt, process, cause});
  }
}

bool AttemptRecord::HasUnanswered(uint32_t attempt) const {
  return std::any_of(unanswered_.begin(), unanswered_.end(),
                     [&](const Unanswered& u) { return u.attempt == attempt; });
}

void AttemptRecord::OnGivenUp(const proto::TaskRef& process) {
  for (Unanswered& u : unanswered_) u.ended = u.ended || IsSame(u.process, process);
}

void AttemptRecord::OnServing(const proto::TaskRef& process) {
  // A worker process that serves has not ended, so its unanswered calls are not casualties.
  unanswered_.erase(std::remove_if(unanswered_.begin(), unanswered_.end(),
                                   [&](const Unanswered& u) { return IsSame(u.process, process); }),
                    unanswered_.end());
  // A worker has one process at a time. Since `process` serves now, the worker's other processes
  // have ended.
  for (Unanswered& u : unanswered_) {
    u.ended = u.ended || u.process.index() == process.index();
  }
}

bool AttemptRecord::IsPoison(size_t after, bool only_worker, uint32_t ends_now) const {
  std::set<uint32_t> attempts;
  std::set<int32_t> workers;
  for (const Unanswered& u : unanswered_) {
    if (!u.ended && u.attempt != ends_now) continue;
    attempts.insert(u.attempt);
    workers.insert(u.process.index());
  }
  // All members of a gang may end at the same time. So an attempt counts once, even if several of
  // its calls were unanswered.
  return attempts.size() >= after && (workers.size() > 1 || only_worker);
}

std::string AttemptRecord::Casualties(uint32_t ends_now) const {
  size_t count = 0;
  std::string causes;
  for (const Unanswered& u : unanswered_) {
    // The process of this call may still be alive. The call counts only if it belongs to the
    // attempt `ends_now`, as in IsPoison.
    if (!u.ended && u.attempt != ends_now) continue;
    ++count;
    absl::StrAppend(&causes, causes.empty() ? "" : "; ", TaskName(u.process), ": ",
                    u.cause.message());
  }
  return absl::StrCat(count, " worker processes ended with it: ", causes);
}

}  // namespace cohort
