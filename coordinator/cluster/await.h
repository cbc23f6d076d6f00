#pragma once

// Turns an asynchronous form into a blocking one.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// Runs start(done) and waits until done(StatusOr<T>) was called. `what` says what is waited for.
// Errors: what `done` got; DEADLINE_EXCEEDED naming `what`.
template <typename T, typename Start>
absl::StatusOr<T> Await(Waiter& waiter, absl::Duration timeout, absl::string_view what,
                        Start start) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // written before the event, read after it
  };
  auto state = std::make_shared<State>();  // shared: a late answer finds it after a time-out
  start([state](absl::StatusOr<T> result) {
    state->result = std::move(result);
    state->event.Notify();
  });
  if (!waiter.Wait(state->event, timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat("waited ", absl::FormatDuration(timeout), " for ", what));
  }
  return std::move(state->result);
}

// Turns the `done` of an Await<bool> into one that gets a status.
template <typename Done>
auto StatusTo(Done done) {
  return [done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(status);
    done(true);
  };
}

// Gives `done` the first of several results and drops the later ones. Thread-safe. Shared by all
// that may give one.
template <typename T>
class FirstResult {
 public:
  explicit FirstResult(absl::AnyInvocable<void(absl::StatusOr<T>)> done) : done_(std::move(done)) {}
  void Give(absl::StatusOr<T> result) {
    if (!has_come_.exchange(true)) done_(std::move(result));
  }

 private:
  std::atomic<bool> has_come_{false};
  absl::AnyInvocable<void(absl::StatusOr<T>)> done_;
};

// Awaits calls to a task, or without a task to homes of variables. The wait ends with the task's
// loss, which is known sooner than a call to a task that stands still runs out of time. Later
// answers are dropped.
template <typename T, typename Watched, typename Start>
absl::StatusOr<T> AwaitUnlessLost(Waiter& waiter, absl::Duration timeout, absl::string_view what,
                                  const std::shared_ptr<Watched>& cluster,
                                  std::optional<TaskId> task, Start start) {
  uint64_t watch = 0;
  absl::StatusOr<T> result = Await<T>(waiter, timeout, what, [&](auto done) {
    auto first = std::make_shared<FirstResult<T>>(std::move(done));
    watch = cluster->WatchLoss(task, [first](const absl::Status& loss) { first->Give(loss); });
    start([first](absl::StatusOr<T> answer) { first->Give(std::move(answer)); });
  });
  cluster->ForgetWatch(watch);
  return result;
}

// Awaits something that can be given up: start(done) returns its id, and abandon(id) whether `done`
// will never run. `timed_out` makes the error when the time has run out.
template <typename T, typename Start, typename Abandon>
absl::StatusOr<T> AwaitOrAbandon(Waiter& waiter, absl::Duration timeout,
                                 absl::FunctionRef<absl::Status()> timed_out, Start start,
                                 Abandon abandon) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // written before the event, read after it
  };
  auto state = std::make_shared<State>();  // shared with `done`
  const auto id = start([state](absl::StatusOr<T> result) {
    state->result = std::move(result);
    state->event.Notify();
  });
  if (!waiter.Wait(state->event, timeout)) {
    const absl::Status error = timed_out();
    if (abandon(id)) return error;
    waiter.Wait(state->event, absl::InfiniteDuration());  // `done` is about to run
  }
  return std::move(state->result);
}

}  // namespace cohort
