#pragma once

// A worker task: its services, put together and listening. The task has no threads of its own: the
// services run on the threads of the world's transport and executor, and programs run on the
// compute executor. So the worker process, the in-process tests and the simulator all run this
// class.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/cluster/cluster_spec.h"
#include "common/task/task_service.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"
#include "worker/service/worker_service.h"

namespace cohort {

// A home of variables in the worker's own process, for jobs without parameter servers. The worker
// knows the calls of proto/ps.proto, but not the code that answers them; only worker/variables_home
// knows both.
struct WorkerHome {
  // The service of the home, called by other processes and by the closures of this worker.
  Service service;
  // Handles the coordinator's Attach for the home, before the worker's own handler; must not block.
  std::function<void(const proto::AttachRequest&)> on_attach;
};

using MakeWorkerHome =
    std::function<WorkerHome(World world, std::shared_ptr<TaskService> task_service)>;

// A worker that can be started and drained. Thread-compatible.
class WorkerTask {
 public:
  // The options of the WorkerService, of the TaskService and of this class. The constructor sets
  // TaskOptions::on_attach itself; a caller's value is ignored.
  struct Options : WorkerService::Options, TaskOptions {
    std::string listen_address;  // host:port; port 0 takes a free port
    MakeWorkerHome make_home;    // makes the home of variables; empty: this process has none
    ClusterSpec own_cluster;     // the cluster of this process's TF_CONFIG; empty: unknown
  };

  WorkerTask(World world, Options options);
  ~WorkerTask();

  // Starts to listen and returns the bound address. Errors: UNAVAILABLE or ALREADY_EXISTS, naming
  // the address.
  absl::StatusOr<std::string> Start();

  // Reports the state DRAINING to the coordinator and refuses Attach from now on. If the
  // coordinator asks this worker to stay, the worker serves on until Shutdown, for at most
  // `patience`.
  void StartLeaving(absl::Duration patience);
  // Calls StartLeaving(), then refuses new calls and waits for open calls, `grace` in all. Blocks.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // The services of the worker; shared with calls under way, which may outlive this object.
  std::shared_ptr<WorkerService> worker_service_;
  std::shared_ptr<TaskService> task_service_;
  WorkerHome home_;
  // The transport by which this worker's closures reach the home: calls within the process.
  std::unique_ptr<InProcessTransport> home_transport_;
  std::unique_ptr<Server> home_server_;
  // Declared last and therefore destroyed first, because the server calls the services above.
  std::unique_ptr<Server> server_;
};

}  // namespace cohort
