#include "worker/service/worker_task.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/service/own_cluster.h"

namespace cohort {

namespace {
constexpr char kHomeAddress[] = "home";
}  // namespace

WorkerTask::WorkerTask(World world, Options options) : world_(world), options_(std::move(options)) {
  WorkerService::Options service_options = options_;
  // Without a compute executor, programs are computed on the world's executor.
  if (!service_options.compute_executor) {
    service_options.compute_executor = [&executor = world_.executor](size_t) -> Executor& {
      return executor;
    };
  }
  worker_service_ = std::make_shared<WorkerService>(world_, service_options);
  TaskOptions task_options = options_;
  // The TaskService holds the WorkerService weakly, because the WorkerService holds the
  // TaskService. The home's handler is set below, because the home is made from the TaskService.
  const auto home_on_attach = std::make_shared<std::function<void(const proto::AttachRequest&)>>();
  task_options.on_attach = [weak = std::weak_ptr(worker_service_), home_on_attach,
                            own = std::make_shared<OwnCluster>(options_.own_cluster)](
                               const proto::AttachRequest& request) {
    own->Compare(request.ps());
    // The home learns the new epoch before the WorkerService does, so that it knows the epoch
    // before a closure of this worker can push to it.
    if (*home_on_attach) (*home_on_attach)(request);
    if (auto service = weak.lock()) service->OnAttach(request);
  };
  task_service_ = std::make_shared<TaskService>(world_, std::move(task_options));
  worker_service_->SetTaskService(task_service_);
  if (!options_.make_home) return;
  home_ = options_.make_home(world_, task_service_);
  *home_on_attach = home_.on_attach;
  // Closures of this worker reach the home of variables in their own process without a socket.
  home_transport_ = std::make_unique<InProcessTransport>(world_.clock, world_.executor);
  worker_service_->SetHome(home_transport_->Connect(kHomeAddress, Lane::kData));
}

WorkerTask::~WorkerTask() {
  // The servers are destroyed first, so that no new call reaches a service that is stopping.
  server_.reset();
  home_server_.reset();
  worker_service_->Stop();
  worker_service_->StopWatching();
  // An open Watch call and the TaskService hold each other until Stop() ends the call.
  task_service_->Stop();
}

absl::StatusOr<std::string> WorkerTask::Start() {
  COHORT_CHECK(server_ == nullptr, "a task starts once");
  std::vector<Service> services;
  services.push_back(task_service_->service());
  services.push_back(worker_service_->service());
  services.push_back(worker_service_->collective_service());
  if (home_transport_ != nullptr) {
    services.push_back(home_.service);
    ASSIGN_OR_RETURN(home_server_, home_transport_->Listen(kHomeAddress, {home_.service}));
  }
  ASSIGN_OR_RETURN(server_, world_.transport.Listen(options_.listen_address, std::move(services)));
  return server_->address();
}

void WorkerTask::StartLeaving(absl::Duration patience) { task_service_->StartLeaving(patience); }

void WorkerTask::Drain(absl::Duration grace) {
  const absl::Time end = world_.clock.Now() + grace;
  // During most of the grace period, the worker serves on until the coordinator allows it to leave.
  StartLeaving(grace * kLeavePart);
  task_service_->WaitToLeave(grace * kLeavePart);
  // Gangs end before the server drains: they need new calls of other workers, which a draining
  // server refuses.
  worker_service_->Stop();
  if (server_) server_->Drain(end - world_.clock.Now());
}

}  // namespace cohort
