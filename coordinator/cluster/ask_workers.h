#pragma once

// One question to several workers at once, and what each of them answers.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/limited_group.h"

namespace cohort {

// Whether the same worker, or another process in its place, may answer later.
bool MayAnswerLater(const absl::Status& status);

// The workers of `cluster` that serve, by ascending index.
std::vector<TaskLink> ServingWorkers(const Cluster& cluster);

struct WorkerQuestion {
  std::string method;           // "/cohort.proto.WorkerService/ListDevices"
  std::string what;             // "workers to list their devices": for the error of a time-out
  absl::Duration call_timeout;  // of each call
};

template <typename Response>
struct WorkerAnswer {
  proto::TaskRef task;
  absl::Status status;  // attributed to the worker, unless MayAnswerLater
  Response response;
};

// Asks each of `links` and blocks until all calls have ended; the answers are in the same order.
template <typename Response, typename Request>
absl::StatusOr<std::vector<WorkerAnswer<Response>>> AskWorkers(Waiter& waiter,
                                                               const std::vector<TaskLink>& links,
                                                               const WorkerQuestion& question,
                                                               const Request& request) {
  using Answer = WorkerAnswer<Response>;
  const auto ask = [links, question, request](
                       size_t i, absl::AnyInvocable<void(absl::StatusOr<Answer>)> done) {
    StartCall<Response>(*links[i].data, question.method, Envelope<Request>{request, {}},
                        question.call_timeout,
                        [task = links[i].task, done = std::move(done)](auto response) mutable {
                          Answer answer{std::move(task), response.status(), {}};
                          if (response.ok()) {
                            answer.response = std::move(response->header);
                          } else if (!MayAnswerLater(answer.status)) {
                            answer.status = AttributedCall(answer.status, answer.task);
                          }
                          done(std::move(answer));
                        });
  };
  return Await<std::vector<Answer>>(
      waiter, absl::InfiniteDuration(), question.what, [&](auto done) {
        LimitedGroup<Answer>::Run({links.size(), links.size()}, ask, std::move(done));
      });
}

}  // namespace cohort
