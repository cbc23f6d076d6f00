#include "coordinator/members/ctl_service.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/typed_call.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/homes/ps_stats_sum.h"
#include "coordinator/members/flight_records.h"

namespace cohort {

namespace {

void FillRef(TaskId task, uint64_t incarnation, proto::TaskRef& ref) {
  ref.set_role(RoleName(task.role));
  ref.set_index(task.index);
  ref.set_incarnation(incarnation);
}

Envelope<proto::AddWorkerResponse> AddAnswer(const WorkerChanges::Added& added) {
  Envelope<proto::AddWorkerResponse> answer;
  FillRef(added.task, 0, *answer.header.mutable_task());
  answer.header.set_was_member(added.was_member);
  return answer;
}

void AddWorker(const CtlParts& parts, const proto::AddWorkerRequest& request,
               TypedReply<proto::AddWorkerResponse> reply) {
  auto answer = [reply =
                     std::move(reply)](const absl::StatusOr<WorkerChanges::Added>& added) mutable {
    if (!added.ok()) return reply(added.status());
    reply(AddAnswer(*added));
  };
  // If the request has no address, the coordinator starts a new worker process itself.
  if (!request.address().empty()) return parts.changes->Add(request.address(), std::move(answer));
  answer(parts.changes->AddLocal());
}

// Returns the worker that the request names, by its address or its index. Errors: NOT_FOUND for an
// address at which no member is.
absl::StatusOr<TaskId> Named(const CtlParts& parts, const proto::RemoveWorkerRequest& request) {
  if (request.address().empty()) return TaskId{Role::kWorker, request.index()};
  for (const Cluster::TaskStatus& member : parts.cluster->TaskStatuses()) {
    if (!member.leaving && member.address == request.address()) return member.task;
  }
  return absl::NotFoundError(absl::StrCat("no member of this job is at ", request.address(), ": ",
                                          parts.cluster->Report()));
}

void RemoveWorker(const CtlParts& parts, const proto::RemoveWorkerRequest& request,
                  TypedReply<proto::RemoveWorkerResponse> reply) {
  const absl::StatusOr<TaskId> task = Named(parts, request);
  if (!task.ok()) return reply(task.status());
  parts.changes->Remove(*task,
                        [task = *task, reply = std::move(reply)](absl::Status status) mutable {
                          if (!status.ok()) return reply(std::move(status));
                          Envelope<proto::RemoveWorkerResponse> answer;
                          FillRef(task, 0, *answer.header.mutable_task());
                          reply(std::move(answer));
                        });
}

proto::MemberState StateOf(const Cluster::TaskStatus& member) {
  if (member.leaving) return proto::MEMBER_LEAVING;
  return member.serving ? proto::MEMBER_SERVING : proto::MEMBER_AWAY;
}

// Time limit of the calls that ask parameter servers for their counters. It is short, so that a
// silent server does not delay the status.
constexpr absl::Duration kStatsTimeout = absl::Seconds(1);

}  // namespace

proto::GetJobStatusResponse JobStatus(const CtlParts& parts) {
  proto::GetJobStatusResponse status;
  status.set_job(parts.job);
  status.set_epoch(parts.cluster->epoch());
  std::map<int, WorkerStats> workers = parts.scheduler->workers();
  for (const Cluster::TaskStatus& member : parts.cluster->TaskStatuses()) {
    proto::MemberStatus& shown = *status.add_members();
    FillRef(member.task, member.incarnation, *shown.mutable_task());
    shown.set_address(member.address);
    shown.set_state(StateOf(member));
    shown.set_text(member.text);
    // Only workers run closures, so other members get no counts of closures.
    if (member.task.role != Role::kWorker) continue;
    shown.set_closures_done(workers[member.task.index].done);
    shown.set_in_flight(workers[member.task.index].in_flight);
  }
  status.set_min_workers(parts.cluster->limits().min);
  status.set_max_workers(parts.cluster->limits().max);
  status.set_waits(parts.scheduler->DescribeWait());
  const Scheduler::Stats stats = parts.scheduler->stats();
  status.set_closures_done(stats.done);
  status.set_closures_failed(stats.failed);
  status.set_closures_put_back(stats.put_back);
  status.set_closures_queued(stats.queued);
  status.set_closures_in_flight(stats.in_flight);
  status.set_recoveries(stats.recoveries);
  return status;
}

void AnswerJobStatus(const CtlParts& parts, TypedReply<proto::GetJobStatusResponse> reply) {
  Envelope<proto::GetJobStatusResponse> answer;
  answer.header = JobStatus(parts);
  const absl::StatusOr<std::vector<TaskLink>> links = parts.cluster->ps();
  if (!links.ok()) return reply(std::move(answer));
  Envelope<proto::PsStatsRequest> request;
  request.header.set_epoch(parts.cluster->epoch());
  CallEach<proto::PsStatsResponse>(
      *links, "/cohort.proto.PsService/GetStats",
      std::vector<Envelope<proto::PsStatsRequest>>(links->size(), request), kStatsTimeout,
      [answer = std::move(answer), reply = std::move(reply)](auto stats) mutable {
        proto::PsStatsResponse sum;
        // If a parameter server has not answered, the histogram in the status stays empty.
        if (stats.ok()) {
          for (const auto& one : *stats) AddPsStats(one.header, sum);
        }
        *answer.header.mutable_staleness_histogram() = sum.staleness_histogram();
        answer.header.set_staleness_max(sum.staleness_max());
        reply(std::move(answer));
      });
}

Service MakeCtlService(const CtlParts& parts) {
  using proto::AddWorkerRequest, proto::AddWorkerResponse, proto::GetJobStatusRequest,
      proto::GetJobStatusResponse, proto::RemoveWorkerRequest, proto::RemoveWorkerResponse;
  Service service;
  service.descriptor = AddWorkerRequest::descriptor()->file()->FindServiceByName("CtlService");
  service.handlers["AddWorker"] =
      MakeHandler<AddWorkerRequest, AddWorkerResponse>([parts](const auto& request, auto reply) {
        AddWorker(parts, request.header, std::move(reply));
      });
  service.handlers["RemoveWorker"] = MakeHandler<RemoveWorkerRequest, RemoveWorkerResponse>(
      [parts](const auto& request, auto reply) {
        RemoveWorker(parts, request.header, std::move(reply));
      });
  service.handlers["GetJobStatus"] = MakeHandler<GetJobStatusRequest, GetJobStatusResponse>(
      [parts](const auto&, auto reply) { AnswerJobStatus(parts, std::move(reply)); });
  service.handlers["AskFlightRecords"] =
      MakeHandler<proto::AskFlightRecordsRequest, proto::AskFlightRecordsResponse>(
          [parts](const auto& request, auto reply) {
            AskFlightRecords(*parts.cluster, request.header, std::move(reply));
          });
  return service;
}

}  // namespace cohort
