#pragma once

// Calls to the homes of variables. All of them call idempotent methods, which may be repeated after
// a failure. StartUntilWhole repeats a call if its request or its answer arrived malformed;
// CallEach does the same for many homes at once. StartRetried also repeats a call if the transport
// has failed or the home has answered TRANSIENT; it is meant for the steps of a long operation that
// would be costly to begin anew. CallRounds distributes slices over several calls, because one call
// carries at most kCallBytesMax (common/wire/frame_limits.h).

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/cluster/process_limits.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/task_connection.h"

namespace cohort {

// Converts the error of a failed call to a home of variables, whatever the home's role. If the home
// did not answer, the class becomes PS_LOST, because the variables may be lost. An error that the
// home answered keeps its class. If it is the coordinator that could not make the call, the home is
// not blamed.
inline absl::Status AttributedHomeCall(const absl::Status& status, const proto::TaskRef& home) {
  if (IsOutOfFiles(status)) {
    return Annotate(status, absl::StrCat("the coordinator cannot call ", TaskName(home)));
  }
  const bool unreachable =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  return Attributed(status, unreachable ? proto::PS_LOST : proto::APPLICATION, home);
}

inline constexpr int kCallAttemptsMax = 3;

// Makes a call to the task `task`. Repeats the call if its request or its answer arrived malformed,
// up to kCallAttemptsMax attempts in total; each such message is logged with the task.
template <typename Response, typename Request>
void StartUntilWhole(const proto::TaskRef& task, std::shared_ptr<Channel> channel,
                     std::string method, Envelope<Request> request, absl::Duration timeout,
                     TypedReply<Response> done, int attempt = 1) {
  Envelope<Request> copy = request;  // the copy shares the payload with `request`
  Channel& called = *channel;
  StartCall<Response>(
      called, method, std::move(copy), timeout,
      [task, channel = std::move(channel), method, request = std::move(request), timeout,
       done = std::move(done), attempt](absl::StatusOr<Envelope<Response>> response) mutable {
        if (!IsMalformed(response.status())) return done(std::move(response));
        Log(LogLevel::kWarning, "malformed_message",
            {{"task", TaskName(task)}, {"method", method}, {"cause", response.status().message()}});
        if (attempt == kCallAttemptsMax) return done(std::move(response));
        StartUntilWhole<Response>(task, std::move(channel), std::move(method), std::move(request),
                                  timeout, std::move(done), attempt + 1);
      });
}

// Calls a home of variables. Repeats the call if the transport has failed or the home has answered
// TRANSIENT, up to kCallAttemptsMax attempts in total. The error of a failed call names the home
// (AttributedHomeCall).
template <typename Response, typename Request>
void StartRetried(const TaskLink& link, const std::string& method, Envelope<Request> request,
                  absl::Duration timeout, TypedReply<Response> done, int attempt = 1) {
  Envelope<Request> copy = request;  // the copy shares the payload with `request`
  StartCall<Response>(
      *link.data, method, std::move(copy), timeout,
      [link, method, request = std::move(request), timeout, done = std::move(done),
       attempt](absl::StatusOr<Envelope<Response>> response) mutable {
        const absl::Status& status = response.status();
        const bool unanswered = (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) &&
                                ClassOf(status) == proto::ERROR_CLASS_UNKNOWN;
        const bool again = unanswered || ClassOf(status) == proto::TRANSIENT;
        if (again && attempt < kCallAttemptsMax) {
          Log(LogLevel::kInfo, "call_repeated",
              {{"task", TaskName(link.task)}, {"method", method}, {"cause", status.message()}});
          return StartRetried<Response>(link, method, std::move(request), timeout, std::move(done),
                                        attempt + 1);
        }
        if (!response.ok()) return done(AttributedHomeCall(status, link.task));
        done(std::move(response));
      });
}

// Calls all links in parallel; `requests` has one entry per link. When all calls have ended, `done`
// gets the responses in the order of `links`, or the first error, which names its home. Only for
// idempotent methods: a call is repeated if its request or its answer arrived malformed.
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
        links[i].task, links[i].*lane, std::string(method), std::move(requests[i]), timeout,
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

// The size of one slice in a call, in the request or in the response.
struct SliceLoad {
  size_t home = 0;  // position of the slice's home in the list of homes
  size_t bytes = 0;
};

// Divides slices into rounds of calls, with one call per home in each round. Returns, for each
// round, the positions in `slices`. In each call, a home has at most `bytes_max` bytes or a single
// slice. The slices of one home keep their order. Without slices, returns one empty round.
std::vector<std::vector<size_t>> CallRounds(absl::Span<const SliceLoad> slices, size_t bytes_max);

}  // namespace cohort
