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
      iterator_(std::move(iterator)) {}

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
    // Queues behind earlier requests: answers keep the order of requests.
    if (!waiting_.empty() || !TakeReadyLocked(result)) {
      waiting_.push_back(std::move(done));
    }
  }
  FillIfNeeded();
  if (done) done(std::move(result));
}

void ElementStream::FillIfNeeded() {
  {
    MutexLock lock(mutex_);
    if (filling_ || ended_.has_value()) return;
    if (ready_.size() >= prefetch_ + waiting_.size()) return;
    filling_ = true;
  }
  executor_.Run([self = shared_from_this()] { self->FillOne(); });
}

void ElementStream::FillOne() {
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
    absl::StatusOr<std::optional<Item>> result = std::nullopt;
    while (!waiting_.empty() && TakeReadyLocked(result)) {
      answers.emplace_back(std::move(waiting_.front()), std::move(result));
      waiting_.pop_front();
    }
  }
  FillIfNeeded();
  for (auto& [done, result] : answers) done(std::move(result));
}

}  // namespace cohort
