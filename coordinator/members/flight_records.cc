#include "coordinator/members/flight_records.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/message_json.h"

namespace cohort {

namespace {

// Time limit of the call that asks a worker for its flight records. It is short: operators ask when
// training has stopped, and a stopped worker does not answer.
constexpr absl::Duration kAnswerWait = absl::Seconds(2);

// Collects the workers' answers for one AskFlightRecords. Shared by the calls to all workers.
// Thread-safe.
struct Answers {
  Mutex mutex;
  size_t open ABSL_GUARDED_BY(mutex) = 0;
  Envelope<proto::AskFlightRecordsResponse> all ABSL_GUARDED_BY(mutex);
  TypedReply<proto::AskFlightRecordsResponse> reply ABSL_GUARDED_BY(mutex);

  // Stores the answer of one worker. `worker` is the worker's position in the reply.
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

  // Notes that a call has ended. After the last one, sends the reply.
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

// Reads one flight file. Errors: those of ReadFile; INVALID_ARGUMENT for another kind of file.
absl::StatusOr<proto::GroupFlight> ReadFlight(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  proto::GroupFlight flight;
  if (const absl::Status read = MessageFromJson(text, flight); !read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a flight record of a worker: ", read.message()));
  }
  // Any JSON object can be parsed as a flight record, if only as an empty one. So two fields that
  // every record has are checked.
  if (flight.rank() >= flight.size() || flight.tasks_size() != static_cast<int>(flight.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": is not a flight record of a worker: it names no rank, or not the tasks of all; give "
        "files that a worker named in its log line flight_record"));
  }
  return flight;
}

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
    // If the worker does not serve, this text stays in the reply and says why there is no record.
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
    // The number of open calls begins one too high. So the reply is not sent before all calls have
    // been started.
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

absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max) {
  std::map<uint32_t, proto::WorkerFlightRecord> workers;  // the workers' records, by worker index
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(proto::GroupFlight flight, ReadFlight(files, path));
    auto& operations = *flight.mutable_operations();
    // Calls are recorded in the order of time, so the oldest ones are at the front.
    if (operations.size() > calls_max) operations.DeleteSubrange(0, operations.size() - calls_max);
    const proto::TaskRef& task = flight.tasks(static_cast<int>(flight.rank()));
    proto::WorkerFlightRecord& worker = workers[task.index()];
    *worker.mutable_task() = task;
    *worker.add_groups() = std::move(flight);
  }
  proto::AskFlightRecordsResponse records;
  for (auto& [index, worker] : workers) *records.add_workers() = std::move(worker);
  return records;
}

}  // namespace cohort
