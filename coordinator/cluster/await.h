#pragma once

// Helpers that turn an asynchronous call into a blocking one.

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

// Runs start(done) and blocks until done(StatusOr<T>) was called. `what` names the awaited event in
// the error text. Errors: those passed to `done`; DEADLINE_EXCEEDED naming `what`.
template <typename T, typename Start>
absl::StatusOr<T> Await(Waiter& waiter, absl::Duration timeout, absl::string_view what,
                        Start start) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // the result; written before the event happens, read after it
  };
  // `done` shares the state, because it may be called after the time-out.
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

// Converts the `done` of an Await<bool> to a callback that takes a status; OK becomes true.
template <typename Done>
auto StatusTo(Done done) {
  return [done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(status);
    done(true);
  };
}

// Passes the first of several results to `done` and drops the later ones. Shared by all callbacks
// that may produce a result. Thread-safe.
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

// Awaits the result of calls to a task or, without a task, to the homes of variables. If the task
// or a home is lost, the wait ends with that loss, which is known sooner than a call to a stopped
// task times out. Answers after the loss are dropped.
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

// Awaits an operation that can be cancelled: start(done) returns the operation's id, and
// abandon(id) cancels the operation and returns whether `done` will never run. After a time-out,
// `timed_out` makes the error.
template <typename T, typename Start, typename Abandon>
absl::StatusOr<T> AwaitOrAbandon(Waiter& waiter, absl::Duration timeout,
                                 absl::FunctionRef<absl::Status()> timed_out, Start start,
                                 Abandon abandon) {
  struct State {
    Event event;
    absl::StatusOr<T> result;  // the result; written before the event happens, read after it
  };
  auto state = std::make_shared<State>();  // shared with `done`, which may run after a time-out
  const auto id = start([state](absl::StatusOr<T> result) {
    state->result = std::move(result);
    state->event.Notify();
  });
  if (!waiter.Wait(state->event, timeout)) {
    const absl::Status error = timed_out();
    if (abandon(id)) return error;
    // The operation could not be cancelled any more, because `done` is about to run.
    waiter.Wait(state->event, absl::InfiniteDuration());
  }
  return std::move(state->result);
}

}  // namespace cohort
