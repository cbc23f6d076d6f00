#pragma once

// Turns an asynchronous form into a blocking one.

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/event.h"

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

// As Await, for a wait that can be given up: start(done) returns its id, and abandon(id) whether
// `done` will never run. `timed_out` makes the error when the time has run out.
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
