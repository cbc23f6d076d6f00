#include "coordinator/cluster/worker_devices.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/limited_group.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

// Until it may be known that who did not answer is lost.
constexpr absl::Duration kPause = absl::Milliseconds(50);

struct Answer {
  int worker = 0;
  absl::Status status;
  proto::ListDevicesResponse devices;
};

using Answers = std::map<int, proto::ListDevicesResponse>;  // by worker

// The same worker, or another process in its place, may answer later.
bool MayAnswerLater(const absl::Status& status) {
  const proto::ErrorClass error_class = ClassOf(status);
  if (error_class == proto::STALE || error_class == proto::TRANSIENT) return true;
  return error_class == proto::ERROR_CLASS_UNKNOWN &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status));
}

// One call to each, all at once.
absl::StatusOr<std::vector<Answer>> AskOnce(Waiter& waiter, uint64_t epoch,
                                            const std::vector<TaskLink>& links,
                                            absl::Duration call_timeout) {
  const auto ask = [links, epoch, call_timeout](
                       size_t i, absl::AnyInvocable<void(absl::StatusOr<Answer>)> done) {
    Envelope<proto::ListDevicesRequest> request;
    request.header.set_epoch(epoch);
    StartCall<proto::ListDevicesResponse>(
        *links[i].data, "/cohort.proto.WorkerService/ListDevices", std::move(request),
        call_timeout, [task = links[i].task, done = std::move(done)](auto response) mutable {
          Answer answer{task.index(), response.status(), {}};
          if (response.ok()) {
            answer.devices = std::move(response->header);
          } else if (!MayAnswerLater(answer.status)) {
            answer.status = AttributedCall(answer.status, task);
          }
          done(std::move(answer));
        });
  };
  return Await<std::vector<Answer>>(
      waiter, absl::InfiniteDuration(), "workers to list their devices", [&](auto done) {
        LimitedGroup<Answer>::Run({links.size(), links.size()}, ask, std::move(done));
      });
}

std::vector<TaskLink> LinksOf(const Cluster& cluster, const std::vector<int>& workers,
                              const Answers& without) {
  std::vector<TaskLink> links;
  for (const TaskLink& link : cluster.serving()) {
    const int index = link.task.index();
    const bool asked = std::find(workers.begin(), workers.end(), index) != workers.end();
    const bool worker = link.task.role() == RoleName(Role::kWorker);
    if (worker && asked && without.count(index) == 0) links.push_back(link);
  }
  return links;
}

std::string Describe(int worker, const proto::ListDevicesResponse& answer) {
  return absl::StrCat("worker:", worker, " has ", absl::StrJoin(answer.devices(), ", "),
                      answer.no_gpu_reason().empty()
                          ? ""
                          : absl::StrCat(" (", answer.no_gpu_reason(), ")"));
}

// Of all workers, if they have the same.
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

void LogReasons(const Answers& answers) {
  std::map<std::string, std::vector<int>> reasons;
  for (const auto& [worker, answer] : answers) {
    if (!answer.no_gpu_reason().empty()) reasons[answer.no_gpu_reason()].push_back(worker);
  }
  for (const auto& [reason, workers] : reasons) {
    Log(LogLevel::kInfo, "no_gpu", {{"workers", absl::StrJoin(workers, ",")}, {"cause", reason}});
  }
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
  Answers answers;
  while (true) {
    const absl::Status ready =
        Await<bool>(waiter, deadline - world.clock.Now(), "the workers", [&](auto done) {
          cluster.WhenReady(static_cast<int>(question.workers.size()),
                            [done = std::move(done)](const absl::Status& status) mutable {
                              if (!status.ok()) return done(status);
                              done(true);
                            });
        }).status();
    if (absl::IsDeadlineExceeded(ready)) return timed_out();
    RETURN_IF_ERROR(ready);
    ASSIGN_OR_RETURN(const std::vector<Answer> round,
                     AskOnce(waiter, cluster.epoch(),
                             LinksOf(cluster, question.workers, answers), question.call_timeout));
    for (const Answer& answer : round) {
      if (answer.status.ok()) {
        answers[answer.worker] = answer.devices;
      } else if (!MayAnswerLater(answer.status)) {
        return answer.status;
      }
    }
    if (answers.size() == question.workers.size()) break;
    if (world.clock.Now() >= deadline) return timed_out();
    const auto after_pause = [&](auto done) {
      world.clock.CallAt(world.clock.Now() + kPause, [done]() mutable { done(true); });
    };
    RETURN_IF_ERROR(
        Await<bool>(waiter, absl::InfiniteDuration(), "a while", after_pause).status());
  }
  LogReasons(answers);
  return InCommon(answers);
}

}  // namespace cohort
