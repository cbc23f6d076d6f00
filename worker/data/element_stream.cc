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

// Answers one request with the next ready element. If no element is ready and the stream has ended,
// the answer is the end of the data or the error. Returns false if there is no answer yet.
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
    // A request joins the queue if earlier requests wait, so that answers keep the order of the
    // requests.
    if (!waiting_.empty() || !TakeReadyLocked(result)) {
      waiting_.push_back(std::move(done));
    }
  }
  // The stream starts to make the next element before it calls `done`, so that the element is made
  // while the caller works.
  FillIfNeeded();
  // `done` is called outside the lock, because the caller may ask for the next element in `done`.
  if (done) done(std::move(result));
}

void ElementStream::FillIfNeeded() {
  {
    MutexLock lock(mutex_);
    // Only one FillOne() runs at a time, since the iterator is not thread-safe.
    if (filling_ || ended_.has_value()) return;
    if (ready_.size() >= prefetch_ + waiting_.size()) return;
    filling_ = true;
  }
  executor_.Run([self = shared_from_this()] { self->FillOne(); });
}

void ElementStream::FillOne() {
  // The iterator is used without the lock, since `filling_` keeps other tasks from using it.
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
    // Elements made before the end or the error are still given to waiting requests, in order.
    absl::StatusOr<std::optional<Item>> result = std::nullopt;
    while (!waiting_.empty() && TakeReadyLocked(result)) {
      answers.emplace_back(std::move(waiting_.front()), std::move(result));
      waiting_.pop_front();
    }
  }
  FillIfNeeded();
  // `done` is called outside the lock, because the caller may ask for the next element in `done`.
  for (auto& [done, result] : answers) done(std::move(result));
}

}  // namespace cohort
