#include "worker/worker_task.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"

namespace cohort {

WorkerTask::WorkerTask(World world, Options options)
    : world_(world), options_(std::move(options)) {
  WorkerService::Options service_options;
  service_options.compute_threads = options_.compute_threads;
  service_options.default_threads = options_.default_threads;
  service_options.compute_executor =
      options_.compute_executor != nullptr ? options_.compute_executor : &world_.executor;
  service_options.retry = options_.retry;
  worker_service_ = std::make_shared<WorkerService>(world_, service_options);
  TaskService::Options task_options;
  task_options.task = options_.task;
  task_options.incarnation = options_.incarnation;
  // Weak: the worker's service holds the task's.
  task_options.on_attach =
      [weak = std::weak_ptr(worker_service_)](const proto::AttachRequest& request) {
        if (auto service = weak.lock()) service->OnAttach(request);
      };
  task_options.on_shutdown = options_.on_shutdown;
  task_options.orphan_timeout = options_.orphan_timeout;
  task_options.on_orphaned = options_.on_orphaned;
  task_service_ = std::make_shared<TaskService>(world_, std::move(task_options));
  worker_service_->SetTaskService(task_service_);
}

WorkerTask::~WorkerTask() {
  server_.reset();
  // An open Watch holds the services, which hold it.
  task_service_->Stop();
}

absl::StatusOr<std::string> WorkerTask::Start() {
  COHORT_CHECK(server_ == nullptr, "a task starts once");
  std::vector<Service> services;
  services.push_back(task_service_->service());
  services.push_back(worker_service_->service());
  ASSIGN_OR_RETURN(server_,
                   world_.transport.Listen(options_.listen_address, std::move(services)));
  return server_->address();
}

void WorkerTask::Drain(absl::Duration grace) {
  task_service_->StartDraining();
  if (server_) server_->Drain(grace);
}

}  // namespace cohort
