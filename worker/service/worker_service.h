#pragma once

// Answers the calls of proto/worker.proto: resources (service_resources.cc) and closures
// (service_closures.cc). Calls that compile or read files run on one strand, in the order of their
// arrival. Closures start at once and overlap (closure_run.h).
//
// Every call checks the epoch. Every error carries an ErrorDetail with this worker as origin,
// unless another task was at fault.

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/strand.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/task/task_service.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "proto/worker.pb.h"
#include "worker/program/program_cache.h"
#include "worker/ps_client/peer_reach.h"
#include "worker/service/resource_table.h"
#include "worker/step/closure_run.h"

namespace cohort {

// The calls of a worker. Thread-safe. Always owned by a shared_ptr: calls that are under way keep
// it alive.
class WorkerService : public std::enable_shared_from_this<WorkerService> {
 public:
  struct Options {
    int compute_threads = 0;  // number of threads for programs; 0: the number in Attach
    int default_threads = 1;  // number of threads if both compute_threads and Attach say 0
    // Returns the executor on which a replica's programs run; for a WorkerTask, empty stands for
    // the world's executor. An executor with one thread suffices for each replica, and OpenMP then
    // keeps one team of threads per replica. The executors outlive the service.
    ReplicaStrands::ExecutorOf compute_executor;
    RetryPolicy retry;                      // timing of calls to parameter servers
    FindCuda find_cuda;                     // finds CUDA; null: programs run on the processor
    FindNccl find_nccl;                     // finds NCCL; null: NCCL is not used
    std::string flight_directory;           // directory of flight files, see GroupSessions
    size_t call_bytes_max = kCallBytesMax;  // limit of bytes per call, for MakeTransferPlan
    std::string data_directory;  // directory at which relative paths of data begin, see SourceCache
  };
  WorkerService(World world, Options options);

  // Sets the service of this task, which checks epochs. Called before service().
  void SetTaskService(std::shared_ptr<TaskService> task_service);

  // Sets the channel to the variables in this process. Called before the first Attach.
  void SetHome(std::shared_ptr<Channel> channel);
  // Ends, when the task ends, the closures of gangs that wait for earlier gangs or for other
  // workers. Later calls of other workers to this worker's groups are refused.
  void Stop() {
    parts_->groups->Leave();
    parts_->gangs.Restart();
  }

  // Handles the coordinator's Attach, which tells where slices are and how many threads compute. If
  // the coordinator has another incarnation, drops all resources, since ids belong to one
  // incarnation.
  void OnAttach(const proto::AttachRequest& request);

  // Returns the worker's service, for a server. The service keeps this object alive.
  Service service();
  // Returns the service that other workers of gangs call. The service keeps this object alive.
  Service collective_service() { return parts_->groups->service(); }

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;

  // Registers a handler that may be slow. The handler runs on the strand `slow_calls_`.
  template <typename Request, typename Response>
  void BindSlow(Service& service, const char* name,
                Answer<Response> (WorkerService::*method)(const Request&));
  // Wraps `handler` so that each of its errors passes through Refusal().
  Handler Guarded(Handler handler);

  Answer<proto::RegisterProgramResponse> RegisterProgram(
      const proto::RegisterProgramRequest& request);
  Answer<proto::CreateDatasetResponse> CreateDataset(const proto::CreateDatasetRequest& request);
  Answer<proto::CreateIteratorResponse> CreateIterator(const proto::CreateIteratorRequest& request);
  Answer<proto::ReleaseResourcesResponse> ReleaseResources(
      const proto::ReleaseResourcesRequest& request);
  Answer<proto::ListDevicesResponse> ListDevices(const proto::ListDevicesRequest& request);
  void RunClosure(ClosureRun::Request request, ClosureRun::Replied reply);
  void EndGangs(const Envelope<proto::EndGangsRequest>& request,
                TypedReply<proto::EndGangsResponse> reply);
  absl::StatusOr<ClosureInput> FindInput(const proto::RunClosureRequest& request) const;

  // Returns the error in the form in which callers get it: with a class and an origin.
  absl::Status Refusal(const absl::Status& status) const;

  const Options options_;
  // Reachability of peers, shared with the groups and with the client of the parameter servers.
  const std::shared_ptr<PeerReach> reach_;
  // The objects that all closures need, shared with closures in flight.
  const std::shared_ptr<ClosureParts> parts_;
  ProgramCache programs_;
  ResourceTable resources_;
  Strand slow_calls_;
  Mutex mutex_;
  uint64_t coordinator_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
