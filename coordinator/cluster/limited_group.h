#pragma once

// A group of asynchronous operations, of which a limited number run at the same time.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace cohort {

// Calls start(i, done) for each i below `count`; at most `at_once` of these operations run in
// parallel. Then calls `done` with the results in the order of i, or with the first error. After an
// error, starts no further operations, and waits for those under way. The operations share its
// ownership. Thread-safe.
template <typename T>
class LimitedGroup : public std::enable_shared_from_this<LimitedGroup<T>> {
 public:
  using Result = absl::StatusOr<std::vector<T>>;
  using Start = std::function<void(size_t i, absl::AnyInvocable<void(absl::StatusOr<T>)> done)>;
  struct Limits {
    size_t count = 0;
    size_t at_once = 1;
  };

  static void Run(Limits limits, Start start, absl::AnyInvocable<void(Result)> done) {
    if (limits.count == 0) return done(std::vector<T>());
    const std::shared_ptr<LimitedGroup> group(
        new LimitedGroup(limits, std::move(start), std::move(done)));
    for (size_t i = 0; i < limits.at_once; ++i) group->StartNext();
  }

 private:
  LimitedGroup(Limits limits, Start start, absl::AnyInvocable<void(Result)> done)
      : limits_(limits), start_(std::move(start)), done_(std::move(done)), results_(limits.count) {}

  void StartNext() {
    size_t i = 0;
    {
      MutexLock lock(mutex_);
      if (next_ == limits_.count || !error_.ok()) return;
      i = next_++;
      ++open_;
    }
    start_(i, [self = this->shared_from_this(), i](absl::StatusOr<T> result) {
      self->OnEnd(i, std::move(result));
    });
  }

  void OnEnd(size_t i, absl::StatusOr<T> result) {
    bool last = false;
    {
      MutexLock lock(mutex_);
      if (result.ok()) {
        results_[i] = *std::move(result);
      } else if (error_.ok()) {
        error_ = result.status();
      }
      --open_;
      last = open_ == 0 && (next_ == limits_.count || !error_.ok());
    }
    if (last) return done_(TakeResult());
    StartNext();
  }

  Result TakeResult() {
    MutexLock lock(mutex_);
    if (!error_.ok()) return error_;
    return std::move(results_);
  }

  const Limits limits_;
  const Start start_;
  absl::AnyInvocable<void(Result)> done_;  // the completion, called once all operations have ended
  Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<T> results_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
