#include "common/task/task_service.h"

#include <utility>

#include "common/wire/error_detail.h"

namespace cohort {

TaskService::TaskService(World world, Options options)
    : state_(std::make_shared<TaskState>(world, std::move(options))) {
  state_->StartOrphanWatch();
}

TaskService::~TaskService() { state_->Stop(); }

Service TaskService::service() {
  using proto::AttachRequest, proto::AttachResponse, proto::GetStatusRequest,
      proto::GetStatusResponse, proto::ReleaseRequest, proto::ReleaseResponse,
      proto::ShutdownRequest, proto::ShutdownResponse, proto::WatchRequest, proto::WatchResponse;
  Service service;
  service.descriptor = AttachRequest::descriptor()->file()->FindServiceByName("TaskService");
  const auto bind = [&](auto method) {
    // The handler keeps the TaskState alive, because a call may outlive the TaskService.
    return [state = state_, method](auto request, auto reply) {
      ((*state).*method)(std::move(request), std::move(reply));
    };
  };
  // The handler around `typed` adds this task's name to every error, including the error for a
  // malformed message.
  const auto add = [&](const char* name, Handler typed) {
    service.handlers[name] = [state = state_, typed = std::move(typed)](Message message,
                                                                        Reply reply) {
      typed(std::move(message),
            [state, reply = std::move(reply)](absl::StatusOr<Message> answer) mutable {
              if (answer.ok()) return reply(std::move(answer));
              reply(AttributedCall(answer.status(), state->ref()));
            });
    };
  };
  add("Attach", MakeHandler<AttachRequest, AttachResponse>(bind(&TaskState::Attach)));
  add("Watch", MakeHandler<WatchRequest, WatchResponse>(bind(&TaskState::Watch)));
  add("GetStatus", MakeHandler<GetStatusRequest, GetStatusResponse>(bind(&TaskState::GetStatus)));
  add("Shutdown", MakeHandler<ShutdownRequest, ShutdownResponse>(bind(&TaskState::Shutdown)));
  add("Release", MakeHandler<ReleaseRequest, ReleaseResponse>(bind(&TaskState::Release)));
  return service;
}

absl::Status TaskService::CheckEpoch(uint64_t epoch) const { return state_->CheckEpoch(epoch); }

void TaskService::Stop() { state_->Stop(); }

void TaskService::StartLeaving(absl::Duration patience) { state_->StartLeaving(patience); }

void TaskService::WaitToLeave(absl::Duration patience) { state_->WaitToLeave(patience); }

void TaskService::SetUnreached(std::vector<proto::TaskRef> peers) {
  state_->SetUnreached(std::move(peers));
}

proto::TaskRef TaskService::task_ref() const { return state_->ref(); }

}  // namespace cohort
