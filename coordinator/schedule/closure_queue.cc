#include "coordinator/schedule/closure_queue.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace cohort {

ClosureQueue::ClosureQueue(size_t bound) : bound_(bound) {
  COHORT_CHECK(bound > 0, "the queue holds at least one closure");
}

ClosureId ClosureQueue::Put(std::shared_ptr<Closure> closure) {
  COHORT_CHECK(HasRoom(), "a closure is put only when there is room");
  closure->id = ClosureId{++last_id_};
  unfinished_.emplace(closure->id, closure);
  queue_.push_back(std::move(closure));
  return ClosureId{last_id_};
}

std::shared_ptr<Closure> ClosureQueue::Take() {
  if (queue_.empty()) return nullptr;
  std::shared_ptr<Closure> closure = std::move(queue_.front());
  queue_.pop_front();
  ++closure->attempt;
  return closure;
}

std::shared_ptr<Closure> ClosureQueue::RemoveQueued(ClosureId id) {
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const auto& waiting) { return waiting->id == id; });
  if (place == queue_.end()) return nullptr;
  std::shared_ptr<Closure> closure = std::move(*place);
  queue_.erase(place);
  Finish(id);
  return closure;
}

void ClosureQueue::PutBack(ClosureId id) {
  const auto found = unfinished_.find(id);
  COHORT_CHECK(found != unfinished_.end(), "only an in-flight closure is put back");
  // Oldest first, so that the watermark moves on and an old batch is not starved.
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const auto& waiting) { return id < waiting->id; });
  queue_.insert(place, found->second);
}

void ClosureQueue::MarkDone(ClosureId id) { Finish(id); }

void ClosureQueue::MarkFailed(ClosureId id, const absl::Status& error) {
  COHORT_CHECK(!error.ok(), "a failure has an error");
  Finish(id);
  RecordError(error);
}

void ClosureQueue::RecordError(const absl::Status& error) {
  if (error_.ok()) error_ = error;
}

void ClosureQueue::MarkCancelled(ClosureId id) { Finish(id); }

std::vector<std::shared_ptr<Closure>> ClosureQueue::CancelQueued() {
  std::vector<std::shared_ptr<Closure>> cancelled(queue_.begin(), queue_.end());
  queue_.clear();
  for (const auto& closure : cancelled) unfinished_.erase(closure->id);
  return cancelled;
}

absl::Status ClosureQueue::TakeError() { return std::exchange(error_, absl::OkStatus()); }

ClosureId ClosureQueue::watermark() const {
  return unfinished_.empty() ? ClosureId{last_id_ + 1} : unfinished_.begin()->first;
}

void ClosureQueue::Finish(ClosureId id) {
  COHORT_CHECK(unfinished_.erase(id) == 1, "a closure ends once");
}

}  // namespace cohort
