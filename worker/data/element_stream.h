#pragma once

// An iterator that works ahead: it makes up to `prefetch` elements on the executor before they are
// asked for. Requests are answered in the order of their arrival. Each answer has the position
// after its element, from which another iterator can continue; elements that were made but not
// given out do not count.

#include <deque>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "worker/data/dataset.h"

namespace cohort {

// The elements of a DatasetIterator for several readers, of which each gets other elements.
// Thread-safe.
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
    // Elements to make ahead; 0: an element is made only when it is asked for.
    int64_t prefetch = 0;
  };

  // Makes a stream and starts to make elements. The result is shared, because the task that makes
  // an element holds it.
  static std::shared_ptr<ElementStream> Start(Executor& executor,
                                              std::unique_ptr<DatasetIterator> iterator,
                                              Options options);

  // Asks for the next element. `done` runs once: inside this call if an element is ready or the
  // stream has ended, else on the executor.
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
  // The iterator. Only the task for which `filling_` was set uses it.
  const std::unique_ptr<DatasetIterator> iterator_;
  Mutex mutex_;
  bool filling_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  // The answer to every request after the last element: OK at the end of the data, or the error
  // that stopped the iterator. Empty while elements may follow.
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
