#pragma once

// The variables that live in this worker's own process, where a job has no parameter servers. The
// worker knows their calls, those of proto/ps.proto, and nothing of what answers them: who puts the
// process together does (worker/variables_home).

#include <functional>
#include <memory>

#include "common/task/task_service.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

struct WorkerHome {
  // To listen with, and to call from inside.
  Service service;
  // Before the worker's own; must not block.
  std::function<void(const proto::AttachRequest&)> on_attach;
};

using MakeWorkerHome =
    std::function<WorkerHome(World world, std::shared_ptr<TaskService> task_service)>;

}  // namespace cohort
