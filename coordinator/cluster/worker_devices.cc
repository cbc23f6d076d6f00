#include "coordinator/cluster/worker_devices.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/cluster/ask_workers.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

using Answer = WorkerAnswer<proto::ListDevicesResponse>;
using Answers = std::map<int, proto::ListDevicesResponse>;  // answers by worker index

// Returns those of the workers that are still members of the job.
std::vector<int> MembersOf(const Cluster& cluster, const std::vector<int>& workers) {
  std::vector<int> members;
  for (const int worker : workers) {
    if (cluster.IsMember({Role::kWorker, worker})) members.push_back(worker);
  }
  return members;
}

// Returns links to those of the workers that serve and have not answered yet.
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

// Logs which workers the job begins without.
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

// Returns the devices that all workers have, or an error if their devices differ.
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

// Logs why workers use no GPU, one line for each reason.
void LogReasons(const Answers& answers) {
  std::map<std::string, std::vector<int>> reasons;
  for (const auto& [worker, answer] : answers) {
    if (!answer.no_gpu_reason().empty()) reasons[answer.no_gpu_reason()].push_back(worker);
  }
  for (const auto& [reason, workers] : reasons) {
    Log(LogLevel::kInfo, "no_gpu", {{"workers", absl::StrJoin(workers, ",")}, {"cause", reason}});
  }
}

// Returns whether enough of `workers` serve for the job to begin.
bool AreEnough(const Cluster& cluster, const std::vector<int>& workers) {
  return static_cast<int>(LinksOf(cluster, workers, {}).size()) >=
         std::max(1, cluster.limits().min);
}

}  // namespace

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
  absl::Time last_asked = world.clock.Now();  // when a serving worker was asked last
  RETURN_IF_ERROR(cluster.ended());
  while (true) {
    const std::vector<int> workers = MembersOf(cluster, question.workers);
    const std::vector<TaskLink> links = LinksOf(cluster, workers, answers);
    proto::ListDevicesRequest request;
    request.set_epoch(cluster.epoch());
    ASSIGN_OR_RETURN(const std::vector<Answer> round, AskWorkers<proto::ListDevicesResponse>(
                                                          waiter, cluster, links, asked, request));
    absl::Status unanswered;
    for (const Answer& answer : round) {
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
    // The absence counts from the last question, since a worker that serves may still answer.
    if (!links.empty()) last_asked = world.clock.Now();
    // A worker that was lost does not hold up a job that has enough others.
    if (world.clock.Now() >= last_asked + absence && AreEnough(cluster, workers)) {
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
