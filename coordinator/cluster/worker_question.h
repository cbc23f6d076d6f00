#pragma once

// Questions that the coordinator asks workers outside of closures, by calls that may be repeated.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/moved_bytes.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/cluster/limited_group.h"
#include "proto/worker.pb.h"

namespace cohort {

// Returns whether a call that failed with `status` may succeed if it is repeated, on the same
// worker process or on the process that replaces it.
bool MayAnswerLater(const absl::Status& status);

// Returns the serving workers of `cluster`, by ascending index.
std::vector<TaskLink> ServingWorkers(const Cluster& cluster);

// Waits a short time before workers are asked again. During this time the coordinator may find out
// that silent workers are lost, or that lost workers are back. Errors: the error of Cluster::Abort,
// if the job was aborted.
absl::Status PauseForWorkers(World world, Waiter& waiter, const Cluster& cluster);

struct WorkerQuestion {
  std::string method;  // path of the gRPC method, such as "/cohort.proto.WorkerService/ListDevices"
  // The awaited event, in the words of an error text: "workers to list their devices".
  std::string what;
  absl::Duration call_timeout;  // how long one call may be silent
};

template <typename Response>
struct WorkerAnswer {
  proto::TaskRef task;
  // OK, or the error of the call. The error names the worker as its origin, unless MayAnswerLater
  // accepts the error.
  absl::Status status;
  Response response;
};

// Asks one worker. If the worker is lost before it answers, `done` gets an answer whose status is
// the error of the loss. The loss of a stopped worker is known sooner than the call to it times
// out.
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
  StartCall<Response>(*link.data, question.method,
                      Envelope<Request>{request, {}, 0, question.call_timeout},
                      LongestTime(question.call_timeout, request.ByteSizeLong()),
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

// Asks all workers in `links` in parallel, and blocks until each has answered or is lost. Returns
// their answers in the order of `links`; the status of an answer may be an error.
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

}  // namespace cohort
