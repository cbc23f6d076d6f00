#pragma once

// One call to many homes of variables at once.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/home_call.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/homes/retried_call.h"

namespace cohort {

// Calls all links in parallel. When all calls have ended, `done` gets the responses in the order of
// `links`, or the first error, which names the home. `requests` has one entry per link. Only for
// idempotent methods, because a call with a malformed message is made again.
template <typename Response, typename Request>
void CallEach(const std::vector<TaskLink>& links, absl::string_view method,
              std::vector<Envelope<Request>> requests, absl::Duration timeout,
              absl::AnyInvocable<void(absl::StatusOr<std::vector<Envelope<Response>>>)> done,
              std::shared_ptr<Channel> TaskLink::*lane = &TaskLink::data) {
  struct State {
    Mutex mutex;
    size_t open ABSL_GUARDED_BY(mutex);
    std::vector<Envelope<Response>> responses ABSL_GUARDED_BY(mutex);
    absl::Status error ABSL_GUARDED_BY(mutex);
    absl::AnyInvocable<void(absl::StatusOr<std::vector<Envelope<Response>>>)> done;
  };
  if (links.empty()) return done(std::vector<Envelope<Response>>());
  auto state = std::make_shared<State>();
  {
    MutexLock lock(state->mutex);
    state->open = links.size();
    state->responses.resize(links.size());
    state->done = std::move(done);
  }
  for (size_t i = 0; i < links.size(); ++i) {
    StartUntilWhole<Response>(
        links[i].*lane, std::string(method), std::move(requests[i]), timeout,
        [state, i, task = links[i].task](absl::StatusOr<Envelope<Response>> response) {
          absl::StatusOr<std::vector<Envelope<Response>>> result;
          {
            MutexLock lock(state->mutex);
            if (response.ok()) {
              state->responses[i] = *std::move(response);
            } else if (state->error.ok()) {
              state->error = AttributedHomeCall(response.status(), task);
            }
            if (--state->open > 0) return;
            if (state->error.ok()) {
              result = std::move(state->responses);
            } else {
              result = state->error;
            }
          }
          state->done(std::move(result));
        });
  }
}

}  // namespace cohort
