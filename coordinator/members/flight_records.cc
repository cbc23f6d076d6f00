#include "coordinator/members/flight_records.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

namespace {

// The time that workers have to answer. A stopped worker never answers, and an operator asks this
// question when something has stopped.
constexpr absl::Duration kAnswerWait = absl::Seconds(2);

// The answers that have arrived so far. Shared by the calls to all workers. Thread-safe.
struct Answers {
  Mutex mutex;
  size_t open ABSL_GUARDED_BY(mutex) = 0;
  Envelope<proto::AskFlightRecordsResponse> all ABSL_GUARDED_BY(mutex);
  TypedReply<proto::AskFlightRecordsResponse> reply ABSL_GUARDED_BY(mutex);

  // Stores the answer of one worker; `worker` is its place in the list of workers.
  void Take(int worker, absl::StatusOr<Envelope<proto::GetFlightRecordResponse>> answer) {
    {
      MutexLock lock(mutex);
      proto::WorkerFlightRecord& record = *all.header.mutable_workers(worker);
      if (answer.ok()) {
        record.mutable_groups()->Swap(answer->header.mutable_groups());
      } else {
        record.set_error(std::string(answer.status().message()));
      }
    }
    CloseOne();
  }

  // Counts one ended call; the last call sends the reply.
  void CloseOne() {
    TypedReply<proto::AskFlightRecordsResponse> last;
    Envelope<proto::AskFlightRecordsResponse> whole;
    {
      MutexLock lock(mutex);
      if (--open > 0) return;
      last = std::move(reply);
      whole = std::move(all);
    }
    last(std::move(whole));
  }
};

}  // namespace

void AskFlightRecords(const Cluster& cluster, const proto::AskFlightRecordsRequest& request,
                      TypedReply<proto::AskFlightRecordsResponse> reply) {
  const std::vector<TaskLink> serving = cluster.serving();
  proto::AskFlightRecordsResponse workers;
  std::vector<std::pair<int, std::shared_ptr<Channel>>> asked;
  for (const Cluster::TaskStatus& member : cluster.TaskStatuses()) {
    if (member.task.role != Role::kWorker) continue;
    proto::WorkerFlightRecord& record = *workers.add_workers();
    record.mutable_task()->set_role(RoleName(member.task.role));
    record.mutable_task()->set_index(member.task.index);
    record.set_address(member.address);
    // A worker that does not serve keeps this text as its answer.
    record.set_error(member.text);
    for (const TaskLink& link : serving) {
      if (link.task.role() != record.task().role() || link.task.index() != record.task().index()) {
        continue;
      }
      record.set_error("");
      asked.emplace_back(workers.workers_size() - 1, link.control);
    }
  }
  auto answers = std::make_shared<Answers>();
  {
    MutexLock lock(answers->mutex);
    // One more than the calls: the reply must wait until all calls have been started.
    answers->open = asked.size() + 1;
    answers->all.header = std::move(workers);
    answers->reply = std::move(reply);
  }
  Envelope<proto::GetFlightRecordRequest> question;
  question.header.set_calls_max(request.calls_max());
  for (const auto& [worker, channel] : asked) {
    StartCall<proto::GetFlightRecordResponse>(
        *channel, "/cohort.proto.CollectiveService/GetFlightRecord", question, kAnswerWait,
        [answers, worker = worker](auto answer) { answers->Take(worker, std::move(answer)); });
  }
  answers->CloseOne();
}

}  // namespace cohort
