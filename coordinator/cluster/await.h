#pragma once

// Functions that start an asynchronous call and block until the call has ended.

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

// Calls start(done), and blocks until done(StatusOr<T>) is called or the timeout ends. Returns what
// `done` got. `what` names the awaited event in the error text. Errors: those that `done` gets;
// DEADLINE_EXCEEDED naming `what`.
template <typename T, typename Start>
absl::StatusOr<T> Await(Waiter& waiter, absl::Duration timeout, absl::string_view what,
                        Start start) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // the result, written before `event` happens
  };
  // The completion `done` shares the state, because it may be called after the timeout.
  auto state = std::make_shared<State>();
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

// Converts the `done` of an Await<bool> to a callback that takes a status. An OK status becomes
// true.
template <typename Done>
auto StatusTo(Done done) {
  return [done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(status);
    done(true);
  };
}

// Passes the first of several results to `done`, and ignores all later ones. Shared by all
// callbacks that may produce a result. Thread-safe.
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

// Like Await, but also ends the wait if a task is lost: `task` or, if that is absent, any home of
// variables. The error is then that of the loss. A loss is known sooner than a call to a stopped
// task times out.
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

// Like Await, for an operation that can be cancelled: start(done) returns the operation's id, and
// abandon(id) cancels the operation and returns whether `done` will never run. After a timeout,
// `timed_out` makes the error.
template <typename T, typename Start, typename Abandon>
absl::StatusOr<T> AwaitOrAbandon(Waiter& waiter, absl::Duration timeout,
                                 absl::FunctionRef<absl::Status()> timed_out, Start start,
                                 Abandon abandon) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // the result, written before `event` happens
  };
  // The state is shared with `done`, which may run after the timeout.
  auto state = std::make_shared<State>();
  const auto id = start([state](absl::StatusOr<T> result) {
    state->result = std::move(result);
    state->event.Notify();
  });
  if (!waiter.Wait(state->event, timeout)) {
    const absl::Status error = timed_out();
    if (abandon(id)) return error;
    // The operation could not be cancelled, because its `done` is about to run, so its result is
    // awaited.
    waiter.Wait(state->event, absl::InfiniteDuration());
  }
  return std::move(state->result);
}

}  // namespace cohort
