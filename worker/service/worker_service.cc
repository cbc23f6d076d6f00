#include "worker/service/worker_service.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// See WorkerService::Refusal().
absl::Status Refused(const absl::Status& status, const TaskService& task) {
  return Attributed(status, proto::APPLICATION, task.task_ref());
}

}  // namespace

WorkerService::WorkerService(World world, Options options)
    : options_(std::move(options)),
      reach_(std::make_shared<PeerReach>(world)),
      parts_(std::make_shared<ClosureParts>(
          world, std::make_shared<PsClient>(world, options_.retry, reach_),
          options_.compute_executor,
          std::make_shared<GroupSessions>(world, options_.find_nccl, options_.flight_directory,
                                          reach_))),
      programs_(world.transport.MemoryToSend(), options_.find_cuda, options_.find_nccl,
                options_.call_bytes_max),
      resources_(world.executor, world.files, options_.data_directory),
      slow_calls_(world.executor) {}

void WorkerService::SetTaskService(std::shared_ptr<TaskService> task_service) {
  parts_->groups->SetOwn(task_service->task_ref());
  // The report of unreached peers holds the TaskService weakly, because otherwise `reach_` and the
  // TaskService would keep each other alive.
  reach_->SetReport([weak = std::weak_ptr(task_service)](std::vector<proto::TaskRef> unreached) {
    if (const auto service = weak.lock()) service->SetUnreached(std::move(unreached));
  });
  parts_->task_service = std::move(task_service);
}

void WorkerService::SetHome(std::shared_ptr<Channel> channel) {
  parts_->ps_client->SetOwnHome(parts_->task_service->task_ref(), std::move(channel));
}

void WorkerService::OnAttach(const proto::AttachRequest& request) {
  bool another = false;
  {
    MutexLock lock(mutex_);
    // Another incarnation means another coordinator process, whose ids name other programs and data
    // sets.
    another = std::exchange(coordinator_incarnation_, request.coordinator_incarnation()) !=
              request.coordinator_incarnation();
  }
  parts_->worker_position = request.worker_position();
  const absl::Duration lease =
      request.lease_ms() > 0 ? absl::Milliseconds(request.lease_ms()) : kDefaultLease;
  reach_->SetLease(lease);
  // SetPeers() repeats the calls that are under way to a parameter server whose address has
  // changed.
  parts_->ps_client->SetPeers(request.ps(), lease);
  // The number of threads comes from the worker's flag. Without the flag it comes from Attach, and
  // if Attach gives none, it is this worker's share of the machine.
  int threads = options_.compute_threads;
  if (threads <= 0) threads = request.compute_threads();
  if (threads <= 0) threads = options_.default_threads;
  programs_.SetThreads(threads);
  if (another) {
    // Groups, gangs, programs and data of the earlier coordinator are dropped, because the new
    // coordinator uses the same ids for its own.
    parts_->groups->Restart(request.coordinator_incarnation());
    parts_->gangs.Restart();
    programs_.Clear();
    resources_.Clear();
  }
}

template <typename Request, typename Response>
void WorkerService::BindSlow(Service& service, const char* name,
                             Answer<Response> (WorkerService::*method)(const Request&)) {
  service.handlers[name] = Guarded(MakeHandler<Request, Response>(
      [self = shared_from_this(), method](Envelope<Request> request, TypedReply<Response> reply) {
        self->slow_calls_.Post([self, method, request = std::move(request.header),
                                reply = std::move(reply)]() mutable {
          // The epoch of a slow call is checked on the strand and not on arrival, because the epoch
          // may change while the call waits for the strand.
          absl::Status epoch = self->parts_->task_service->CheckEpoch(request.epoch());
          if (!epoch.ok()) return reply(std::move(epoch));
          reply(((*self).*method)(request));
        });
      }));
}

// Even the error for a malformed message passes through Refusal().
Handler WorkerService::Guarded(Handler handler) {
  // A reply does not hold this object, because the object may hold the reply (GangAnswers).
  return [task = parts_->task_service, handler = std::move(handler)](Message message, Reply reply) {
    handler(std::move(message),
            [task, reply = std::move(reply)](absl::StatusOr<Message> answer) mutable {
              if (!answer.ok()) return reply(Refused(answer.status(), *task));
              reply(std::move(answer));
            });
  };
}

Service WorkerService::service() {
  COHORT_CHECK(parts_->task_service != nullptr, "SetTaskService comes first");
  Service service;
  service.descriptor =
      proto::RunClosureRequest::descriptor()->file()->FindServiceByName("WorkerService");
  BindSlow(service, "RegisterProgram", &WorkerService::RegisterProgram);
  BindSlow(service, "CreateDataset", &WorkerService::CreateDataset);
  BindSlow(service, "GatherStatistics", &WorkerService::GatherStatistics);
  BindSlow(service, "CreateIterator", &WorkerService::CreateIterator);
  BindSlow(service, "ReleaseResources", &WorkerService::ReleaseResources);
  BindSlow(service, "ListDevices", &WorkerService::ListDevices);
  service.handlers["RunClosure"] =
      Guarded(MakeHandler<proto::RunClosureRequest, proto::RunClosureResponse>(
          [self = shared_from_this()](ClosureRun::Request request, ClosureRun::Replied reply) {
            self->RunClosure(std::move(request), std::move(reply));
          }));
  service.handlers["EndGangs"] =
      Guarded(MakeHandler<proto::EndGangsRequest, proto::EndGangsResponse>(
          [self = shared_from_this()](const Envelope<proto::EndGangsRequest>& request,
                                      TypedReply<proto::EndGangsResponse> reply) {
            self->EndGangs(request, std::move(reply));
          }));
  return service;
}

absl::Status WorkerService::Refusal(const absl::Status& status) const {
  return Refused(status, *parts_->task_service);
}

}  // namespace cohort
