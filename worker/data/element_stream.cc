#include "worker/data/element_stream.h"

#include <utility>

namespace cohort {

std::shared_ptr<ElementStream> ElementStream::Start(Executor& executor,
                                                    std::unique_ptr<DatasetIterator> iterator,
                                                    Options options) {
  std::shared_ptr<ElementStream> stream(new ElementStream(executor, std::move(iterator), options));
  stream->FillIfNeeded();
  return stream;
}

ElementStream::ElementStream(Executor& executor, std::unique_ptr<DatasetIterator> iterator,
                             Options options)
    : executor_(executor),
      prefetch_(static_cast<size_t>(options.prefetch)),
      dataset_(iterator->dataset()),
      iterator_(std::move(iterator)) {}

// Takes the answer to one request: the next ready element, or, if none is ready and the stream has
// ended, the end of the data or the error. Returns false if there is no answer yet.
bool ElementStream::TakeReadyLocked(absl::StatusOr<std::optional<Item>>& result) {
  if (!ready_.empty()) {
    result = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }
  if (!ended_.has_value()) return false;
  if (ended_->ok()) {
    result = std::nullopt;
  } else {
    result = *ended_;
  }
  return true;
}

void ElementStream::Next(Done done) {
  absl::StatusOr<std::optional<Item>> result = std::nullopt;
  {
    MutexLock lock(mutex_);
    // A request also waits if earlier requests wait, so that answers keep the order of the
    // requests.
    if (!waiting_.empty() || !TakeReadyLocked(result)) {
      waiting_.push_back(std::move(done));
    }
  }
  // The next element is begun before `done` is called, so that it is made while the caller works.
  FillIfNeeded();
  // `done` is called outside the lock, because it may ask for the next element.
  if (done) done(std::move(result));
}

void ElementStream::FillIfNeeded() {
  {
    MutexLock lock(mutex_);
    // One task at a time makes elements, because the iterator is not thread-safe.
    if (filling_ || ended_.has_value()) return;
    if (ready_.size() >= prefetch_ + waiting_.size()) return;
    filling_ = true;
  }
  executor_.Run([self = shared_from_this()] { self->FillOne(); });
}

void ElementStream::FillOne() {
  // The iterator is used without the lock: while `filling_` is set, no other task uses it.
  const proto::IteratorPosition position = iterator_->position();
  absl::StatusOr<std::optional<Element>> element = iterator_->Next();
  std::vector<std::pair<Done, absl::StatusOr<std::optional<Item>>>> answers;
  {
    MutexLock lock(mutex_);
    filling_ = false;
    if (!element.ok()) {
      ended_ = element.status();
    } else if (!element->has_value()) {
      ended_ = absl::OkStatus();
    } else {
      ready_.push_back(Item{**std::move(element), position, iterator_->position()});
    }
    // Waiting requests get the elements that were made before the end or the error, then the end or
    // the error.
    absl::StatusOr<std::optional<Item>> result = std::nullopt;
    while (!waiting_.empty() && TakeReadyLocked(result)) {
      answers.emplace_back(std::move(waiting_.front()), std::move(result));
      waiting_.pop_front();
    }
  }
  FillIfNeeded();
  // `done` is called outside the lock, because it may ask for the next element.
  for (auto& [done, result] : answers) done(std::move(result));
}

}  // namespace cohort
