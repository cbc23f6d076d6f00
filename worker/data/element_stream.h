#pragma once

// An iterator that works ahead: it makes up to `prefetch` elements on the executor before a caller
// asks for them. Requests are answered in the order of their arrival, each with the position that
// follows its element. An element that was prefetched but not returned does not advance the
// reported position.

#include <deque>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "worker/data/dataset.h"

namespace cohort {

// A queue of elements in front of a DatasetIterator, shared by its readers. Thread-safe.
class ElementStream : public std::enable_shared_from_this<ElementStream> {
 public:
  struct Item {
    Element element;
    proto::IteratorPosition position;  // position of `element` in the data set
    proto::IteratorPosition next_position;
  };
  // Receives the next element, or nullopt at the end of the data. Errors: those of
  // DatasetIterator::Next; after an error, every further request gets the same error.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::optional<Item>>)>;

  struct Options {
    int64_t prefetch = 0;  // 0: an element is made only when a caller asks for it
  };

  // Starts to fill the stream. The result is shared because the task that makes the next element
  // holds it.
  static std::shared_ptr<ElementStream> Start(Executor& executor,
                                              std::unique_ptr<DatasetIterator> iterator,
                                              Options options);

  // Asks for the next element. `done` runs on the executor, or inside this call if an element is
  // ready.
  void Next(Done done);

  // The data set whose elements the stream gives.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

 private:
  ElementStream(Executor& executor, std::unique_ptr<DatasetIterator> iterator, Options options);
  void FillIfNeeded();
  void FillOne();
  bool TakeReadyLocked(absl::StatusOr<std::optional<Item>>& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Executor& executor_;
  const size_t prefetch_;
  const std::shared_ptr<const Dataset> dataset_;
  // The iterator, used only by the task for which `filling_` was set.
  const std::unique_ptr<DatasetIterator> iterator_;
  Mutex mutex_;
  bool filling_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  // The end of the stream: OK after the last element, or the error that stopped the iterator. Every
  // further request gets this answer.
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
