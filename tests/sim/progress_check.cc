#include "tests/sim/progress_check.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// Besides the lease, in which a pair is found out.
constexpr absl::Duration kGoOn = absl::Seconds(3);

// How long one call of the set-up may be silent before it is made again: a quarter of the default
// connect_timeout (scheduler_calls.cc).
constexpr absl::Duration kSetUpSilence = absl::Seconds(15);

bool Is(const std::string& host, absl::string_view role) { return absl::StartsWith(host, role); }

}  // namespace

void ProgressCheck::OnCut(const std::string& from, const std::string& to, absl::Time now,
                          absl::Time until) {
  from_ = from;
  to_ = to;
  begin_ = now;
  end_ = until;
}

bool ProgressCheck::MustHearOfAll() const {
  return !from_.empty() && !Is(from_, "chief") && !Is(to_, "chief") && ended_ > 0;
}

bool ProgressCheck::CanWork() const {
  const bool with_worker = Is(from_, "worker") || Is(to_, "worker");
  const bool with_ps = Is(from_, "ps") || Is(to_, "ps");
  const bool with_chief = Is(from_, "chief") || Is(to_, "chief");
  if (with_ps && with_chief) return false;
  if (!with_worker) return true;
  const bool both_workers = !with_ps && !with_chief;
  if (both_workers && options_.ps > 0) return true;
  return options_.workers - 1 >= options_.workers_min;
}

std::string ProgressCheck::Check(absl::Time now, uint64_t ended) {
  if (ended != ended_) {
    ended_ = ended;
    last_ = now;
  }
  if (from_.empty() || (now < end_ && !CanWork())) return "";
  // Until the first closure has ended, the set-up waits for every task.
  const bool sets_up = ended_ == 0;
  if (sets_up && now < end_) return "";
  const absl::Duration bound =
      options_.lease + kGoOn + options_.absent + (sets_up ? kSetUpSilence : absl::ZeroDuration());
  if (sets_up) last_ = std::max(last_, end_);
  const absl::Time since = std::max(last_, now < end_ || CanWork() ? begin_ : end_);
  if (now - since <= bound) return "";
  // Reported once.
  last_ = absl::InfiniteFuture();
  return absl::StrCat("nothing has ended for ", absl::FormatDuration(bound), " although ", from_,
                      " and ", to_,
                      now < end_ ? " alone do not reach each other" : " reach each other again");
}

}  // namespace cohort
