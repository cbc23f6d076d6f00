#pragma once

// Answers the calls of the service in proto/worker.proto: calls that make or release resources
// (service_resources.cc), and calls about closures (service_closures.cc). Calls that compile
// programs or read files run on one strand, in the order of their arrival. Closures start at once
// and overlap (closure_run.h).
//
// Every call is refused unless its epoch is the one to which this worker is attached. Every error
// carries an ErrorDetail; its origin is this worker, unless another task was at fault.

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

// The call handlers of a worker. Thread-safe. Always owned by a shared_ptr, which calls under way
// hold.
class WorkerService : public std::enable_shared_from_this<WorkerService> {
 public:
  struct Options {
    int compute_threads = 0;  // number of threads that compute programs; 0: the number in Attach
    // Number of threads that compute programs if both compute_threads and Attach say 0.
    int default_threads = 1;
    // Returns the executor on which the programs of a replica run. For a WorkerTask, an empty
    // function stands for the world's executor. A separate executor with one thread suffices for
    // each replica; OpenMP then keeps one team of threads per replica. The executors outlive the
    // service.
    ReplicaStrands::ExecutorOf compute_executor;
    RetryPolicy retry;             // timing of repeated calls to parameter servers
    FindCuda find_cuda;            // finds CUDA; null: programs run on processors only
    FindNccl find_nccl;            // finds NCCL; null: NCCL is not used
    std::string flight_directory;  // directory of flight files, see GroupSessions
    // Most bytes that one pull or push moves, see MakeTransferPlan.
    size_t call_bytes_max = kCallBytesMax;
    std::string data_directory;  // directory in which relative paths of data begin, see SourceCache
  };
  WorkerService(World world, Options options);

  // Sets the TaskService of this task, which checks the epochs of calls. Called once, before
  // service().
  void SetTaskService(std::shared_ptr<TaskService> task_service);

  // Sets the channel to the home of variables in this process. Called before the first Attach.
  void SetHome(std::shared_ptr<Channel> channel);
  // Ends the closures of gangs that wait for earlier gangs or for other workers, because this task
  // ends. From now on, calls of other workers to this worker's groups are refused.
  void Stop() {
    parts_->groups->Leave();
    parts_->gangs.Restart();
  }

  // Ends the watch of peers, whose probes use the world's transport. Called after Stop(), when the
  // task is destroyed.
  void StopWatching() { reach_->Stop(); }

  // Handles the coordinator's Attach, which says which parameter servers there are and how many
  // threads compute. If the coordinator is a new incarnation, drops all programs, data sets,
  // iterators and groups, since their ids belong to the earlier incarnation.
  void OnAttach(const proto::AttachRequest& request);

  // Returns the service of proto/worker.proto. The service keeps this object alive.
  Service service();
  // Returns the service that the other workers of a gang call. The service keeps the groups of this
  // worker alive.
  Service collective_service() { return parts_->groups->service(); }

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;

  // Registers a handler that may be slow: `method` runs on the strand `slow_calls_`.
  template <typename Request, typename Response>
  void BindSlow(Service& service, const char* name,
                Answer<Response> (WorkerService::*method)(const Request&));
  // Wraps `handler` so that each of its errors passes through Refusal().
  Handler Guarded(Handler handler);

  Answer<proto::RegisterProgramResponse> RegisterProgram(
      const proto::RegisterProgramRequest& request);
  Answer<proto::CreateDatasetResponse> CreateDataset(const proto::CreateDatasetRequest& request);
  Answer<proto::GatherStatisticsResponse> GatherStatistics(
      const proto::GatherStatisticsRequest& request);
  Answer<proto::CreateIteratorResponse> CreateIterator(const proto::CreateIteratorRequest& request);
  Answer<proto::ReleaseResourcesResponse> ReleaseResources(
      const proto::ReleaseResourcesRequest& request);
  Answer<proto::ListDevicesResponse> ListDevices(const proto::ListDevicesRequest& request);
  void RunClosure(ClosureRun::Request request, ClosureRun::Replied reply);
  void EndGangs(const Envelope<proto::EndGangsRequest>& request,
                TypedReply<proto::EndGangsResponse> reply);
  absl::StatusOr<ClosureInput> FindInput(const proto::RunClosureRequest& request) const;

  // Returns `status` with the class APPLICATION and this worker as origin, where the error does not
  // name a class or an origin itself.
  absl::Status Refusal(const absl::Status& status) const;

  const Options options_;
  // The record of which peers are reached; shared with the groups and with the PsClient.
  const std::shared_ptr<PeerReach> reach_;
  // The objects that all closures need; shared with closures in flight.
  const std::shared_ptr<ClosureParts> parts_;
  ProgramCache programs_;
  ResourceTable resources_;
  Strand slow_calls_;
  Mutex mutex_;
  uint64_t coordinator_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
