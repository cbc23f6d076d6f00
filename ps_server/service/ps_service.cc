#include "ps_server/service/ps_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

PsService::PsService(World world, Parts parts, VariableStore::Options options)
    : world_(world),
      task_service_(std::move(parts.task_service)),
      push_gate_(std::move(parts.push_gate)),
      receive_budget_(std::move(parts.receive_budget)),
      send_budget_(std::move(parts.send_budget)),
      store_options_(std::move(options)),
      contents_(std::make_shared<Contents>(store_options_)),
      strand_(world.executor),
      shard_strand_(world.executor) {}

template <typename Request, typename Response>
void PsService::Respond(Method<Request, Response> method, Envelope<Request> request,
                        TypedReply<Response> reply) {
  Answer<Response> answer = (this->*method)(request);
  // If the caller has lent the request's memory, the caller may use the memory again as soon as the
  // answer arrives. So the memory is released before the reply.
  request.payload.clear();
  reply(std::move(answer));
}

// Runs a method where `place` says: on this thread, on a strand or on the executor.
template <typename Request, typename Response>
void PsService::Dispatch(Place place, Method<Request, Response> method, Envelope<Request> request,
                         TypedReply<Response> reply) {
  const bool small = PayloadBytes(request.payload) <= kInlineBytesMax;
  if (place == Place::kTransport || (place == Place::kByPayloadSize && small)) {
    return Respond(method, std::move(request), std::move(reply));
  }
  Task task = [self = shared_from_this(), method, request = std::move(request),
               reply = std::move(reply)]() mutable {
    self->Respond(method, std::move(request), std::move(reply));
  };
  if (place == Place::kStrand) return strand_.Post(std::move(task));
  if (place == Place::kShardStrand) return shard_strand_.Post(std::move(task));
  world_.executor.Run(std::move(task));
}

template <typename Request, typename Response>
void PsService::Bind(Service& service, const char* name, Place place,
                     Method<Request, Response> method) {
  BindHandler<Request, Response>(service, name,
                                 [self = shared_from_this(), place, method](
                                     Envelope<Request> request, TypedReply<Response> reply) {
                                   self->Dispatch(place, method, std::move(request),
                                                  std::move(reply));
                                 });
}

template <typename Request, typename Response, typename Handle>
void PsService::BindHandler(Service& service, const char* name, Handle handle) {
  Handler typed =
      MakeHandler<Request, Response>([self = shared_from_this(), handle = std::move(handle)](
                                         Envelope<Request> request, TypedReply<Response> reply) {
        const absl::Status epoch = self->task_service_->CheckEpoch(request.header.epoch());
        if (!epoch.ok()) return reply(epoch);
        handle(std::move(request), std::move(reply));
      });
  // The outermost handler sees every error, so even the error for a malformed message is answered
  // with an ErrorDetail.
  service.handlers[name] = [self = shared_from_this(), typed = std::move(typed)](Message message,
                                                                                 Reply reply) {
    typed(std::move(message),
          [self, reply = std::move(reply)](absl::StatusOr<Message> answer) mutable {
            if (!answer.ok()) return reply(self->Refusal(answer.status()));
            reply(std::move(answer));
          });
  };
}

Service PsService::service() {
  Service service;
  service.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
  service.receive_budget = receive_budget_;
  Bind(service, "CreateVariables", Place::kStrand, &PsService::CreateVariables);
  BindHandler<proto::PullRequest, proto::PullResponse>(
      service, "Pull", [self = shared_from_this()](auto request, auto reply) {
        self->PullWithRoom(std::move(request), std::move(reply));
      });
  Bind(service, "Push", Place::kByPayloadSize, &PsService::Push);
  Bind(service, "Assign", Place::kByPayloadSize, &PsService::Assign);
  Bind(service, "HoldShard", Place::kStrand, &PsService::HoldShard);
  Bind(service, "WriteShard", Place::kShardStrand, &PsService::WriteShard);
  Bind(service, "RestoreShard", Place::kStrand, &PsService::RestoreShard);
  Bind(service, "ReadShard", Place::kShardStrand, &PsService::ReadShard);
  Bind(service, "ReleaseShard", Place::kTransport, &PsService::ReleaseShard);
  Bind(service, "StageRestore", Place::kStrand, &PsService::StageRestore);
  Bind(service, "WriteStaged", Place::kStrand, &PsService::WriteStaged);
  BindHandler<proto::FetchStagedRequest, proto::FetchStagedResponse>(
      service, "FetchStaged", [self = shared_from_this()](auto request, auto reply) {
        self->FetchStaged(request.header, std::move(reply));
      });
  Bind(service, "ProbeDirectory", Place::kShardStrand, &PsService::ProbeDirectory);
  Bind(service, "Fence", Place::kTransport, &PsService::Fence);
  Bind(service, "GetStats", Place::kTransport, &PsService::GetStats);
  return service;
}

std::shared_ptr<PsService::Contents> PsService::contents() const {
  MutexLock lock(mutex_);
  return contents_;
}

absl::Status PsService::Refusal(const absl::Status& status) const {
  return Attributed(status, proto::APPLICATION, task_service_->task_ref());
}

}  // namespace cohort
