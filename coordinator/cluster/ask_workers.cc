#include "coordinator/cluster/ask_workers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/unanswered_call.h"
#include "coordinator/cluster/worker_question.h"

namespace cohort {

namespace {

// Returns the error of a question that a worker left unanswered for the time `lasted`, although the
// worker serves.
template <typename Request>
absl::Status UnansweredQuestion(const WorkerQuestion& question, const Request& request,
                                const proto::TaskRef& worker, absl::Duration lasted,
                                const absl::Status& failure) {
  return UnansweredError({MethodName(question.method), request.ByteSizeLong()}, lasted,
                         AttributedCall(failure, worker));
}

using DataAnswer = WorkerAnswer<proto::CreateDatasetResponse>;

// Asks the workers in `links` in parallel to build the data set. If `expected` is not null, each
// worker compares its data with it. If a worker serves but does not answer in time, the status of
// its answer says so and names the call. Errors: that of a worker that refuses, if it would refuse
// again.
absl::StatusOr<std::vector<DataAnswer>> AskToBuild(Waiter& waiter, Cluster& cluster,
                                                   const DataQuestion& question,
                                                   const std::vector<TaskLink>& links,
                                                   const proto::ExpectedData* expected) {
  proto::CreateDatasetRequest request;
  request.set_epoch(cluster.epoch());
  request.set_dataset_id(question.dataset_id);
  *request.mutable_spec() = question.spec;
  if (expected != nullptr) *request.mutable_expected() = *expected;
  const absl::Duration patience = std::min(question.call_timeout, question.timeout);
  const WorkerQuestion asked = {"/cohort.proto.WorkerService/CreateDataset",
                                "workers to build the data set",
                                TimeFor(patience, request.ByteSizeLong())};
  ASSIGN_OR_RETURN(std::vector<DataAnswer> answers, AskWorkers<proto::CreateDatasetResponse>(
                                                        waiter, cluster, links, asked, request));
  for (DataAnswer& answer : answers) {
    if (!answer.status.ok() && !MayAnswerLater(answer.status)) return answer.status;
    if (!absl::IsDeadlineExceeded(answer.status)) continue;
    answer.status =
        UnansweredQuestion(asked, request, answer.task, asked.call_timeout, answer.status);
  }
  return answers;
}

// Asks one worker to build the data set. If that worker does not answer, asks all other workers in
// parallel. Returns the first answer. Errors: if no worker has answered, the error of one of them;
// the error of a worker that refuses.
absl::StatusOr<proto::ExpectedData> FirstAnswer(Waiter& waiter, Cluster& cluster,
                                                const DataQuestion& question) {
  absl::Status error =
      absl::UnavailableError(absl::StrCat("no worker serves now: ", cluster.Report()));
  std::set<int32_t> asked;
  while (true) {
    std::vector<TaskLink> links = ServingWorkers(cluster);
    links.erase(
        std::remove_if(links.begin(), links.end(),
                       [&](const TaskLink& link) { return asked.count(link.task.index()) > 0; }),
        links.end());
    if (links.empty()) return error;
    // The first time, only one worker is asked, because building a data set may be costly.
    if (asked.empty()) links.erase(links.begin() + 1, links.end());
    for (const TaskLink& link : links) asked.insert(link.task.index());
    ASSIGN_OR_RETURN(const std::vector<DataAnswer> answers,
                     AskToBuild(waiter, cluster, question, links, nullptr));
    for (const DataAnswer& answer : answers) {
      if (!answer.status.ok()) {
        // If one error is a timeout of a silent worker, this error is kept, because it tells the
        // user more than the error of a broken connection.
        if (!absl::IsDeadlineExceeded(error)) error = answer.status;
        continue;
      }
      proto::ExpectedData expected;
      *expected.mutable_worker() = answer.task;
      *expected.mutable_element_spec() = answer.response.element_spec();
      expected.set_cardinality(answer.response.cardinality());
      expected.set_content(answer.response.content());
      expected.set_source_elements(answer.response.source_elements());
      *expected.mutable_files() = answer.response.files();
      return expected;
    }
  }
}

using DeviceAnswer = WorkerAnswer<proto::ListDevicesResponse>;
using Answers = std::map<int, proto::ListDevicesResponse>;  // the workers' devices, by worker index

// Returns those of `workers` that are still members of the job.
std::vector<int> MembersOf(const Cluster& cluster, const std::vector<int>& workers) {
  std::vector<int> members;
  for (const int worker : workers) {
    if (cluster.IsMember({Role::kWorker, worker})) members.push_back(worker);
  }
  return members;
}

// Returns links to those of `workers` that serve and have no entry in `without`.
std::vector<TaskLink> LinksOf(const Cluster& cluster, const std::vector<int>& workers,
                              const Answers& without) {
  std::vector<TaskLink> links;
  for (const TaskLink& link : ServingWorkers(cluster)) {
    const int index = link.task.index();
    const bool asked = std::find(workers.begin(), workers.end(), index) != workers.end();
    if (asked && without.count(index) == 0) links.push_back(link);
  }
  return links;
}

bool HaveAnswered(const Answers& answers, const std::vector<int>& workers) {
  return std::all_of(workers.begin(), workers.end(),
                     [&](int worker) { return answers.count(worker) > 0; });
}

// Logs those of `workers` that have no answer. The job begins without them.
void LogLeftOut(const Answers& answers, const std::vector<int>& workers) {
  std::vector<int> left_out;
  for (const int worker : workers) {
    if (answers.count(worker) == 0) left_out.push_back(worker);
  }
  Log(LogLevel::kWarning, "devices_not_asked",
      {{"workers", absl::StrJoin(left_out, ",")},
       {"cause", "lost while workers listed their devices; the others begin without"}});
}

std::string Describe(int worker, const proto::ListDevicesResponse& answer) {
  return absl::StrCat(
      "worker:", worker, " has ", absl::StrJoin(answer.devices(), ", "),
      answer.no_gpu_reason().empty() ? "" : absl::StrCat(" (", answer.no_gpu_reason(), ")"));
}

// Returns the devices that all workers have. Errors: INVALID_ARGUMENT if two workers have different
// devices.
absl::StatusOr<std::vector<std::string>> InCommon(const Answers& answers) {
  const auto& [first, wanted] = *answers.begin();
  for (const auto& [worker, answer] : answers) {
    if (std::equal(answer.devices().begin(), answer.devices().end(), wanted.devices().begin(),
                   wanted.devices().end())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the job names no devices, which means all of each worker, but they are not the same: ",
        Describe(first, wanted), ", ", Describe(worker, answer),
        "; name in strategy.devices those that all workers have"));
  }
  return std::vector<std::string>(wanted.devices().begin(), wanted.devices().end());
}

// Logs why workers use no GPU. Workers with the same reason share a line.
void LogReasons(const Answers& answers) {
  std::map<std::string, std::vector<int>> reasons;
  for (const auto& [worker, answer] : answers) {
    if (!answer.no_gpu_reason().empty()) reasons[answer.no_gpu_reason()].push_back(worker);
  }
  for (const auto& [reason, workers] : reasons) {
    Log(LogLevel::kInfo, "no_gpu", {{"workers", absl::StrJoin(workers, ",")}, {"cause", reason}});
  }
}

// Returns whether so many of `workers` serve that the job may begin (cluster.min_workers).
bool AreEnough(const Cluster& cluster, const std::vector<int>& workers) {
  return static_cast<int>(LinksOf(cluster, workers, {}).size()) >=
         std::max(1, cluster.limits().min);
}

}  // namespace

absl::StatusOr<DataOfWorkers> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                         const DataQuestion& question) {
  const absl::Time deadline = world.clock.Now() + question.timeout;
  absl::StatusOr<proto::ExpectedData> first;
  RETURN_IF_ERROR(cluster.ended());
  while (true) {
    first = FirstAnswer(waiter, cluster, question);
    if (first.ok()) break;
    if (!MayAnswerLater(first.status()) || world.clock.Now() >= deadline) return first.status();
    // As long as no worker has answered, those that then serve are asked, until the deadline.
    RETURN_IF_ERROR(PauseForWorkers(world, waiter, cluster));
  }
  DataOfWorkers data{*first, {first->worker().incarnation()}};
  RETURN_IF_ERROR(AskToCompare(waiter, cluster, question, data));
  return data;
}

absl::Status AskToCompare(Waiter& waiter, Cluster& cluster, const DataQuestion& question,
                          DataOfWorkers& data) {
  RETURN_IF_ERROR(cluster.ended());
  std::vector<TaskLink> others;
  for (TaskLink& link : ServingWorkers(cluster)) {
    if (data.asked.insert(link.task.incarnation()).second) others.push_back(std::move(link));
  }
  // Each of these workers compares its own data with those of the first worker, and answers with an
  // error if they differ.
  return AskToBuild(waiter, cluster, question, others, &data.expected).status();
}

absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question) {
  const absl::Time deadline = world.clock.Now() + question.timeout;
  const auto timed_out = [&] {
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     absl::StrCat("waited ", absl::FormatDuration(question.timeout),
                                  " for workers to list their devices: ", cluster.Report()),
                     proto::WORKER_LOST);
  };
  const WorkerQuestion asked = {"/cohort.proto.WorkerService/ListDevices",
                                "workers to list their devices", question.call_timeout};
  Answers answers;
  const absl::Duration absence = std::min(cluster.self().lease, question.timeout / 2);
  absl::Time last_asked = world.clock.Now();  // when a serving worker was last asked
  RETURN_IF_ERROR(cluster.ended());
  while (true) {
    const std::vector<int> workers = MembersOf(cluster, question.workers);
    const std::vector<TaskLink> links = LinksOf(cluster, workers, answers);
    proto::ListDevicesRequest request;
    request.set_epoch(cluster.epoch());
    ASSIGN_OR_RETURN(
        const std::vector<DeviceAnswer> round,
        AskWorkers<proto::ListDevicesResponse>(waiter, cluster, links, asked, request));
    absl::Status unanswered;
    for (const DeviceAnswer& answer : round) {
      if (answer.status.ok()) {
        answers[answer.task.index()] = answer.response;
      } else if (!MayAnswerLater(answer.status)) {
        return answer.status;
      } else if (absl::IsDeadlineExceeded(answer.status)) {
        unanswered =
            UnansweredQuestion(asked, request, answer.task, question.timeout, answer.status);
      }
    }
    if (HaveAnswered(answers, workers) && !answers.empty()) break;
    // As long as serving workers are asked, they may still answer. So the time for which lost
    // workers are awaited begins with the last question.
    if (!links.empty()) last_asked = world.clock.Now();
    // A lost worker does not delay a job for which enough other workers serve. A worker that began
    // to serve after the question has given no answer yet and is asked in the next turn.
    if (world.clock.Now() >= last_asked + absence && !answers.empty() &&
        AreEnough(cluster, workers)) {
      LogLeftOut(answers, workers);
      break;
    }
    if (world.clock.Now() >= deadline) return unanswered.ok() ? timed_out() : unanswered;
    RETURN_IF_ERROR(PauseForWorkers(world, waiter, cluster));
  }
  LogReasons(answers);
  return InCommon(answers);
}

}  // namespace cohort
