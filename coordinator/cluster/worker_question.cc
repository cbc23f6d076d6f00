#include "coordinator/cluster/worker_question.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The pause before the coordinator asks workers again that have not answered.
constexpr absl::Duration kPause = absl::Milliseconds(50);

}  // namespace

bool MayAnswerLater(const absl::Status& status) {
  const proto::ErrorClass error_class = ClassOf(status);
  if (error_class == proto::STALE || error_class == proto::TRANSIENT ||
      error_class == proto::WORKER_LOST) {
    return true;
  }
  // An error without a class comes from the transport, so the worker has not refused the call.
  return error_class == proto::ERROR_CLASS_UNKNOWN &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status));
}

std::vector<TaskLink> ServingWorkers(const Cluster& cluster) {
  std::vector<TaskLink> workers;
  for (const TaskLink& link : cluster.serving()) {
    if (link.task.role() == RoleName(Role::kWorker)) workers.push_back(link);
  }
  // Workers are asked in the order of their indices, so answers and error texts are deterministic.
  std::sort(workers.begin(), workers.end(),
            [](const TaskLink& a, const TaskLink& b) { return a.task.index() < b.task.index(); });
  return workers;
}

absl::Status PauseForWorkers(World world, Waiter& waiter, const Cluster& cluster) {
  const auto after_pause = [&](auto done) {
    world.clock.CallAt(world.clock.Now() + kPause, [done]() mutable { done(true); });
  };
  RETURN_IF_ERROR(Await<bool>(waiter, absl::InfiniteDuration(), "a while", after_pause).status());
  // If the job was aborted, the caller stops asking, and returns the error of the abort.
  return cluster.ended();
}

}  // namespace cohort
