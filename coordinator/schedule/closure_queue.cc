#include "coordinator/schedule/closure_queue.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// The maximum number of later errors whose texts TakeError adds to the first error. More texts
// would make the message unreadable.
constexpr size_t kOtherErrorsMax = 7;
}  // namespace

ClosureQueue::ClosureQueue(size_t bound) : bound_(bound) {
  COHORT_CHECK(bound > 0, "the queue holds at least one closure");
}

ClosureId ClosureQueue::Admit(const std::shared_ptr<Closure>& closure) {
  COHORT_CHECK(HasRoom(), "a closure is put only when there is room");
  closure->id = next_id();
  if (unfinished_.empty()) after_ = closure->id;
  closure->after = after_;
  // A closure takes one id for each of its steps.
  last_id_ += closure->num_steps();
  unfinished_.emplace(closure->id, closure);
  if (unfinished_.size() >= bound_) is_full_ = true;
  return closure->id;
}

ClosureId ClosureQueue::Put(std::shared_ptr<Closure> closure) {
  const InvariantsAfter check(*this);
  const ClosureId id = Admit(closure);
  queue_.push_back(std::move(closure));
  return id;
}

ClosureId ClosureQueue::PutWaiting(std::shared_ptr<Closure> closure) {
  const InvariantsAfter check(*this);
  const ClosureId id = Admit(closure);
  waiting_.emplace(id, std::move(closure));
  return id;
}

Closure* ClosureQueue::FindWaiting(ClosureId id) const {
  const auto found = waiting_.find(id);
  return found == waiting_.end() ? nullptr : found->second.get();
}

const Closure* ClosureQueue::FindQueued(ClosureId id) const {
  // A linear search of the queue is fast enough: FindQueued is called only when the deadline of a
  // closure passes.
  if (const Closure* const closure = FindWaiting(id)) return closure;
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const auto& queued) { return queued->id == id; });
  return place == queue_.end() ? nullptr : place->get();
}

void ClosureQueue::MakeReady(ClosureId id) {
  const InvariantsAfter check(*this);
  COHORT_CHECK(waiting_.erase(id) == 1, "only a waiting closure becomes ready");
  // The closure may be older than closures in the queue. PutBack inserts it by its id.
  PutBack(id);
}

std::shared_ptr<Closure> ClosureQueue::Take() {
  const InvariantsAfter check(*this);
  if (queue_.empty()) return nullptr;
  std::shared_ptr<Closure> closure = std::move(queue_.front());
  queue_.pop_front();
  ++closure->attempt;
  return closure;
}

std::shared_ptr<Closure> ClosureQueue::RemoveQueued(ClosureId id) {
  const InvariantsAfter check(*this);
  if (const auto found = waiting_.find(id); found != waiting_.end()) {
    std::shared_ptr<Closure> closure = std::move(found->second);
    waiting_.erase(found);
    Finish(id);
    return closure;
  }
  // If the closure is in flight, it is neither in `waiting_` nor in `queue_`, and is not removed.
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const auto& waiting) { return waiting->id == id; });
  if (place == queue_.end()) return nullptr;
  std::shared_ptr<Closure> closure = std::move(*place);
  queue_.erase(place);
  Finish(id);
  return closure;
}

void ClosureQueue::PutBack(ClosureId id) {
  const InvariantsAfter check(*this);
  const auto found = unfinished_.find(id);
  COHORT_CHECK(found != unfinished_.end(), "a closure that is queued has not ended");
  // The queue stays ordered by id. So the oldest closure runs first, and the watermark, which
  // cannot pass the oldest unfinished closure, moves on.
  const auto place =
      std::upper_bound(queue_.begin(), queue_.end(), id,
                       [](ClosureId wanted, const auto& waiting) { return wanted < waiting->id; });
  queue_.insert(place, found->second);
}

void ClosureQueue::PutAgain(std::shared_ptr<Closure> closure) {
  const InvariantsAfter check(*this);
  const ClosureId id = closure->id;
  closure->ForgetSteps();
  // The closure's record is of attempts before the restore, which say nothing about its next run.
  closure->record = AttemptRecord();
  replays_.insert(id);
  COHORT_CHECK(unfinished_.emplace(id, std::move(closure)).second,
               "a closure that runs again has ended");
  PutBack(id);
}

void ClosureQueue::ForgetSteps() {
  const InvariantsAfter check(*this);
  for (const auto& [id, closure] : unfinished_) closure->ForgetSteps();
}

void ClosureQueue::ForgetReplays() {
  const InvariantsAfter check(*this);
  replays_.clear();
}

void ClosureQueue::Strike(ClosureId id) {
  const InvariantsAfter check(*this);
  struck_.insert(id);
}

void ClosureQueue::OnGivenUp(const proto::TaskRef& process) {
  const InvariantsAfter check(*this);
  for (const ClosureId id : struck_) unfinished_.at(id)->record.OnGivenUp(process);
}

void ClosureQueue::OnServing(const proto::TaskRef& process) {
  const InvariantsAfter check(*this);
  for (const ClosureId id : struck_) unfinished_.at(id)->record.OnServing(process);
}

bool ClosureQueue::HasQueuedReplay() const {
  return !replays_.empty() &&
         absl::c_any_of(queue_, [this](const auto& queued) { return IsReplay(queued->id); });
}

std::vector<std::shared_ptr<Closure>> ClosureQueue::Struck() const {
  std::vector<std::shared_ptr<Closure>> struck;
  for (const ClosureId id : struck_) struck.push_back(unfinished_.at(id));
  return struck;
}

void ClosureQueue::SkipTo(ClosureId next) {
  const InvariantsAfter check(*this);
  COHORT_CHECK(last_id_ < next.value, "ids only grow");
  last_id_ = next.value - 1;
}

void ClosureQueue::MarkDone(ClosureId id) {
  const InvariantsAfter check(*this);
  Finish(id);
}

void ClosureQueue::MarkFailed(ClosureId id, const absl::Status& error) {
  const InvariantsAfter check(*this);
  COHORT_CHECK(!error.ok(), "a failure has an error");
  Finish(id);
  RecordError(error);
}

void ClosureQueue::RecordError(const absl::Status& error) {
  const InvariantsAfter check(*this);
  // If one closure of an aborted group fails, all members report its failure, perhaps in different
  // words. Each failed closure is therefore recorded once.
  const uint64_t failed = DetailOf(error).closure_id();
  const bool is_known = failed != 0 && !failed_.insert(failed).second;
  if (error_.ok()) {
    error_ = error;
    return;
  }
  if (is_known) return;
  const std::string text(error.message());
  // Many closures may fail for the same reason. Each error text is therefore kept once.
  const auto repeats = [&](absl::string_view said) { return RepeatsMessage(text, said); };
  if (repeats(error_.message()) || absl::c_any_of(other_errors_, repeats)) return;
  if (other_errors_.size() < kOtherErrorsMax) {
    other_errors_.push_back(text);
  } else {
    errors_left_out_ = true;
  }
}

void ClosureQueue::MarkCancelled(ClosureId id) {
  const InvariantsAfter check(*this);
  Finish(id);
}

std::vector<std::shared_ptr<Closure>> ClosureQueue::CancelQueued() {
  const InvariantsAfter check(*this);
  std::vector<std::shared_ptr<Closure>> cancelled;
  // Replays stay in the queue: they are not cancelled, because callers have seen the results of
  // their first runs.
  const std::deque<std::shared_ptr<Closure>> queued = std::exchange(queue_, {});
  for (const std::shared_ptr<Closure>& closure : queued) {
    if (IsReplay(closure->id)) {
      queue_.push_back(closure);
    } else {
      cancelled.push_back(closure);
    }
  }
  for (const auto& [id, closure] : waiting_) cancelled.push_back(closure);
  waiting_.clear();
  // The cancelled closures have left `queue_` and `waiting_` by now. Finish() removes them from
  // `unfinished_`.
  for (const auto& closure : cancelled) Finish(closure->id);
  return cancelled;
}

absl::Status ClosureQueue::TakeError() {
  const InvariantsAfter check(*this);
  const absl::Status first = std::exchange(error_, absl::OkStatus());
  const std::vector<std::string> others = std::exchange(other_errors_, {});
  const bool left_out = std::exchange(errors_left_out_, false);
  failed_.clear();
  if (others.empty()) return first;
  // Code that handles the error looks at the payloads of the first error, so the joined error keeps
  // them.
  absl::Status error(first.code(),
                     absl::StrCat(first.message(), "; after it: ", absl::StrJoin(others, "; "),
                                  left_out ? "; and others" : ""));
  first.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { error.SetPayload(url, payload); });
  return error;
}

ClosureId ClosureQueue::watermark() const {
  // `unfinished_` is ordered by id, so its first closure is the oldest unfinished one.
  return unfinished_.empty() ? next_id() : unfinished_.begin()->first;
}

void ClosureQueue::Finish(ClosureId id) {
  COHORT_CHECK(unfinished_.erase(id) == 1, "a closure ends once");
  replays_.erase(id);
  struck_.erase(id);
  // A full queue takes closures again only once an eighth of the bound is free, so that callers
  // wake up in batches.
  if (unfinished_.size() < bound_ && unfinished_.size() <= bound_ - bound_ / 8) is_full_ = false;
}

void ClosureQueue::CheckInvariants() const {
  const size_t size = unfinished_.size();
  COHORT_CHECK(queue_.size() + waiting_.size() <= size,
               "a queued or waiting closure has not ended");
  COHORT_CHECK(!is_full_ || size >= bound_ || size > bound_ - bound_ / 8,
               "a queue with an eighth of its room free is not full");
  COHORT_CHECK(size == 0 || unfinished_.rbegin()->first < next_id(),
               "every id is below the next one");
  COHORT_CHECK(other_errors_.empty() || !error_.ok(),
               "later errors are kept only after a first one");
  if (size > kFrequentWalkMax) return;
  const auto unfinished = [this](ClosureId id) { return unfinished_.count(id) > 0; };
  COHORT_CHECK(absl::c_all_of(replays_, unfinished), "a replay has not ended");
  COHORT_CHECK(absl::c_all_of(struck_, unfinished), "a struck closure has not ended");
  ClosureId last{0};
  for (const auto& queued : queue_) {
    COHORT_CHECK(last < queued->id, "the queue ascends, and has each closure once");
    COHORT_CHECK(unfinished(queued->id), "a queued closure has not ended");
    COHORT_CHECK(!(queued->id < queued->after), "a closure waits only for older ones");
    COHORT_CHECK(waiting_.count(queued->id) == 0, "a closure waits or is queued");
    last = queued->id;
  }
  for (const auto& [id, closure] : waiting_) {
    COHORT_CHECK(closure->id == id && unfinished(id), "a waiting closure has not ended");
  }
}

}  // namespace cohort
