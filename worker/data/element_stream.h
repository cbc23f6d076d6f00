#pragma once

// An iterator that works ahead: up to `prefetch` elements are made on the executor before they are
// asked for. Requests are answered in the order of their arrival, each with the position that
// follows its element; what was prefetched and not handed out does not count.

#include <deque>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "worker/data/dataset.h"

namespace cohort {

// Thread-safe.
class ElementStream : public std::enable_shared_from_this<ElementStream> {
 public:
  struct Item {
    Element element;
    proto::IteratorPosition position;  // the element's
    proto::IteratorPosition next_position;
  };
  // The receiver of an element, or of nothing at the end of the data. Errors: those of
  // DatasetIterator::Next, from then on for ever.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::optional<Item>>)>;

  struct Options {
    int64_t prefetch = 0;  // 0: an element is made when it is asked for
  };

  // Starts to fill. Shared: the pending fill task holds it.
  static std::shared_ptr<ElementStream> Start(Executor& executor,
                                              std::unique_ptr<DatasetIterator> iterator,
                                              Options options);

  // Asks for the next element. `done` runs on the executor, or inside this call if an element is
  // ready.
  void Next(Done done);

 private:
  ElementStream(Executor& executor, std::unique_ptr<DatasetIterator> iterator, Options options);
  void FillIfNeeded();
  void FillOne();
  bool TakeReadyLocked(absl::StatusOr<std::optional<Item>>& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Executor& executor_;
  const size_t prefetch_;
  const std::unique_ptr<DatasetIterator> iterator_;  // touched only by the one that set filling_
  Mutex mutex_;
  bool filling_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  // Set when the iterator ended (no value) or failed: the answer to every further request.
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
