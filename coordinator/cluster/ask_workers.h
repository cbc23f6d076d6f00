#pragma once

// A question to several workers at once, with one answer per worker.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/limited_group.h"
#include "coordinator/cluster/unanswered_call.h"

namespace cohort {

// Returns whether the failed call may succeed later, in the same worker process or in one that
// takes its place.
bool MayAnswerLater(const absl::Status& status);

// Returns the serving workers of `cluster`, by ascending index.
std::vector<TaskLink> ServingWorkers(const Cluster& cluster);

// Waits a short time, after which the coordinator may know whether workers that did not answer are
// lost, and whether lost workers are back. Errors: that of Cluster::Abort.
absl::Status PauseForWorkers(World world, Waiter& waiter, const Cluster& cluster);

struct WorkerQuestion {
  std::string method;  // "/cohort.proto.WorkerService/ListDevices"
  std::string what;    // the purpose, for the error of a time-out: "workers to list their devices"
  absl::Duration call_timeout;  // how long one call may take
};

template <typename Response>
struct WorkerAnswer {
  proto::TaskRef task;
  absl::Status status;  // names the worker as origin, unless MayAnswerLater
  Response response;
};

// Asks one worker. If the worker is lost before it answers, the loss is its answer: a loss is known
// sooner than a call to a stopped worker times out.
template <typename Response, typename Request>
void AskWorker(Cluster& cluster, const TaskLink& link, const WorkerQuestion& question,
               const Request& request,
               absl::AnyInvocable<void(absl::StatusOr<WorkerAnswer<Response>>)> done) {
  using Answer = WorkerAnswer<Response>;
  auto first = std::make_shared<FirstResult<Answer>>(std::move(done));
  const TaskId task{Role::kWorker, static_cast<int>(link.task.index())};
  const uint64_t watch =
      cluster.WatchLoss(task, [first, worker = link.task](const absl::Status& loss) {
        first->Give(Answer{worker, loss, {}});
      });
  StartCall<Response>(*link.data, question.method, Envelope<Request>{request, {}},
                      question.call_timeout,
                      [first, watch, weak = cluster.weak_from_this(),
                       worker = link.task](absl::StatusOr<Envelope<Response>> response) {
                        if (const auto cluster = weak.lock()) cluster->ForgetWatch(watch);
                        Answer answer{worker, response.status(), {}};
                        if (response.ok()) {
                          answer.response = std::move(response->header);
                        } else if (!MayAnswerLater(answer.status)) {
                          answer.status = AttributedCall(answer.status, answer.task);
                        }
                        first->Give(std::move(answer));
                      });
}

// Asks each of `links` and blocks until each worker has answered or is lost. The answers have the
// order of `links`.
template <typename Response, typename Request>
absl::StatusOr<std::vector<WorkerAnswer<Response>>> AskWorkers(Waiter& waiter, Cluster& cluster,
                                                               const std::vector<TaskLink>& links,
                                                               const WorkerQuestion& question,
                                                               const Request& request) {
  using Answer = WorkerAnswer<Response>;
  const auto ask = [&cluster, links, question, request](
                       size_t i, absl::AnyInvocable<void(absl::StatusOr<Answer>)> done) {
    AskWorker<Response>(cluster, links[i], question, request, std::move(done));
  };
  return Await<std::vector<Answer>>(
      waiter, absl::InfiniteDuration(), question.what, [&](auto done) {
        LimitedGroup<Answer>::Run({links.size(), links.size()}, ask, std::move(done));
      });
}

// Returns the error of a worker that serves but has not answered the question for `lasted`.
template <typename Request>
absl::Status UnansweredQuestion(const WorkerQuestion& question, const Request& request,
                                const proto::TaskRef& worker, absl::Duration lasted,
                                const absl::Status& failure) {
  return UnansweredError({MethodName(question.method), request.ByteSizeLong()}, lasted,
                         AttributedCall(failure, worker));
}

}  // namespace cohort
