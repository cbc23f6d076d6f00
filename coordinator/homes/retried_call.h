#pragma once

// Calls of idempotent methods that are repeated after a failure. StartUntilWhole repeats a call if
// one of its messages arrived malformed. StartRetried also repeats a call that the transport has
// failed, or that the task refused with class TRANSIENT, for steps of a long operation that would
// be costly to begin anew.

#include <memory>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/wire/malformed.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/home_call.h"
#include "coordinator/cluster/task_connection.h"

namespace cohort {

inline constexpr int kCallAttemptsMax = 3;

// Makes a call, and repeats it, up to kCallAttemptsMax attempts in all, while one of its messages
// arrives malformed.
template <typename Response, typename Request>
void StartUntilWhole(std::shared_ptr<Channel> channel, std::string method,
                     Envelope<Request> request, absl::Duration timeout, TypedReply<Response> done,
                     int attempt = 1) {
  Envelope<Request> copy = request;  // shares the payload
  Channel& called = *channel;
  StartCall<Response>(
      called, method, std::move(copy), timeout,
      [channel = std::move(channel), method, request = std::move(request), timeout,
       done = std::move(done), attempt](absl::StatusOr<Envelope<Response>> response) mutable {
        if (!IsMalformed(response.status()) || attempt == kCallAttemptsMax) {
          return done(std::move(response));
        }
        StartUntilWhole<Response>(std::move(channel), std::move(method), std::move(request),
                                  timeout, std::move(done), attempt + 1);
      });
}

// Calls a home of variables, and repeats the call if the transport failed or the home answered
// TRANSIENT, up to kCallAttemptsMax attempts in all. A failure names the home (AttributedHomeCall).
template <typename Response, typename Request>
void StartRetried(const TaskLink& link, const std::string& method, Envelope<Request> request,
                  absl::Duration timeout, TypedReply<Response> done, int attempt = 1) {
  Envelope<Request> copy = request;  // shares the payload
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

}  // namespace cohort
