#pragma once

// A worker: its services put together and listening. It has no thread of its own; everything runs
// on the threads of the world's transport and executor and of the compute executor, so the daemon,
// the in-process tests and the simulator run the same object.

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

// The variables that live in this worker's own process, if a job has no parameter servers. The
// worker knows their calls, those of proto/ps.proto, and nothing of what answers them: the code
// that puts the process together does (worker/variables_home).
struct WorkerHome {
  // The service to listen with, and to call from inside.
  Service service;
  // Runs before the worker's own handler; must not block.
  std::function<void(const proto::AttachRequest&)> on_attach;
};

using MakeWorkerHome =
    std::function<WorkerHome(World world, std::shared_ptr<TaskService> task_service)>;

// Thread-compatible.
class WorkerTask {
 public:
  struct Options {
    TaskId task;
    std::string listen_address;  // host:port, port 0 takes a free one
    uint64_t incarnation = 0;    // differs from start to start
    int compute_threads = 0;     // 0: what Attach says, and then default_threads
    int default_threads = 1;
    // Runs the programs of a replica; empty: the world's executor. One thread suffices for each,
    // and keeps OpenMP at one team. The executors outlive the task.
    ReplicaStrands::ExecutorOf compute_executor;
    FindCuda find_cuda;                     // null: programs run on the processor
    FindNccl find_nccl;                     // null: NCCL joins no GPUs
    std::string flight_directory;           // see GroupSessions
    size_t call_bytes_max = kCallBytesMax;  // MakeTransferPlan's
    MakeWorkerHome make_home;               // empty: no variables live here
    // A home's, see TaskService.
    uint64_t memory_bytes = 0;
    EpochGrant granted;
    std::function<absl::Status(const EpochGrant&)> on_grant;
    RetryPolicy retry;  // for calls to parameter servers
    // Runs once when a coordinator asks for Shutdown, on a transport thread; must not block.
    std::function<void()> on_shutdown;
    absl::Duration orphan_timeout = absl::ZeroDuration();  // zero: never orphaned
    // Runs once when no coordinator came for that time (TaskService); must not block.
    std::function<void()> on_orphaned;
  };

  WorkerTask(World world, Options options);
  ~WorkerTask();

  // Listens. The bound address. Errors: UNAVAILABLE or ALREADY_EXISTS naming the address.
  absl::StatusOr<std::string> Start();

  // Reports DRAINING, and may not be attached any more.
  void StartDraining();
  // Starts draining but, if the coordinator wants it, serves on until Shutdown.
  void StartLeaving(absl::Duration patience);
  // Starts draining, then refuses new calls and waits up to `grace` for open ones. Blocks.
  void Drain(absl::Duration grace);

 private:
  World world_;
  const Options options_;
  // Shared with calls under way, which may end after this object.
  std::shared_ptr<WorkerService> worker_service_;
  std::shared_ptr<TaskService> task_service_;
  WorkerHome home_;
  // The transport by which the worker's closures reach the home: no socket, and payloads are shared
  // memory.
  std::unique_ptr<InProcessTransport> home_transport_;
  std::unique_ptr<Server> home_server_;
  std::unique_ptr<Server> server_;  // last: destroyed first, it calls the services
};

}  // namespace cohort
