#pragma once

// A worker: its services, put together and listening. A worker has no thread of its own. Everything
// runs on the threads of the world's transport and executor and of the compute executor, so the
// daemon, the in-process tests and the simulator run the same object.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/task/task_service.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"
#include "worker/service/worker_service.h"

namespace cohort {

// The home of variables in this worker's own process, if a job has no parameter servers. The worker
// knows only the calls of proto/ps.proto and not the code that answers them. Only
// worker/variables_home knows both the worker and this code.
struct WorkerHome {
  // The service of the home, which other processes and the worker's own closures call.
  Service service;
  // Handles Attach for the home, before the worker's own handler; must not block.
  std::function<void(const proto::AttachRequest&)> on_attach;
};

using MakeWorkerHome =
    std::function<WorkerHome(World world, std::shared_ptr<TaskService> task_service)>;

// A worker that can be started and drained. Thread-compatible.
class WorkerTask {
 public:
  // The options of the worker's two services and of the task itself. The limits and the epoch of
  // the home are those of TaskOptions; on_attach is set by the WorkerTask.
  struct Options : WorkerService::Options, TaskOptions {
    std::string listen_address;  // host:port; port 0 takes a free port
    MakeWorkerHome make_home;    // makes the variables home; empty: the process has no variables
  };

  WorkerTask(World world, Options options);
  ~WorkerTask();

  // Starts to listen and returns the bound address. Errors: UNAVAILABLE or ALREADY_EXISTS naming
  // the address.
  absl::StatusOr<std::string> Start();

  // Reports DRAINING and refuses Attach from now on. If the coordinator asks for it, the worker
  // serves on until Shutdown, for at most `patience`.
  void StartLeaving(absl::Duration patience);
  // Starts draining, then refuses new calls and waits up to `grace` for open calls. Blocks.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // The services are shared with calls under way, which may end after this object is destroyed.
  std::shared_ptr<WorkerService> worker_service_;
  std::shared_ptr<TaskService> task_service_;
  WorkerHome home_;
  // The transport by which the worker's closures reach the home: calls within the process, with
  // payloads in shared memory.
  std::unique_ptr<InProcessTransport> home_transport_;
  std::unique_ptr<Server> home_server_;
  // The last member, which is destroyed first, because the server calls the services.
  std::unique_ptr<Server> server_;
};

}  // namespace cohort
