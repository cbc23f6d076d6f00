#include "coordinator/cluster/farewell.h"

#include <utility>

#include "common/wire/typed_call.h"
#include "proto/task.pb.h"

namespace cohort {

namespace {

using Done = absl::AnyInvocable<void(absl::Status)>;

// Makes one call to a task. The channel to the task lives until the call has ended.
template <typename Response, typename Request>
void Tell(const std::shared_ptr<Channel>& control, const char* method, Request request,
          absl::Duration timeout, Done done) {
  StartCall<Response>(
      *control, method, Envelope<Request>{std::move(request), {}}, timeout,
      [control, done = std::move(done)](const absl::StatusOr<Envelope<Response>>& answer) mutable {
        done(answer.status());
      });
}

}  // namespace

void SayFarewell(const std::shared_ptr<Channel>& control, uint64_t epoch, Farewell farewell,
                 absl::Duration timeout, Done done) {
  if (farewell == Farewell::kKeep) {
    proto::ReleaseRequest request;
    request.set_epoch(epoch);
    return Tell<proto::ReleaseResponse>(control, "/cohort.proto.TaskService/Release",
                                        std::move(request), timeout, std::move(done));
  }
  proto::ShutdownRequest request;
  request.set_epoch(epoch);
  Tell<proto::ShutdownResponse>(control, "/cohort.proto.TaskService/Shutdown", std::move(request),
                                timeout, std::move(done));
}

void AskWhetherHeld(const std::shared_ptr<Channel>& control, uint64_t epoch, Done done) {
  // The Watch request names no state that the coordinator knows. So the task answers at once,
  // instead of waiting until its state changes.
  proto::WatchRequest request;
  request.set_epoch(epoch);
  Tell<proto::WatchResponse>(control, "/cohort.proto.TaskService/Watch", std::move(request),
                             kFarewellTimeout, std::move(done));
}

}  // namespace cohort
