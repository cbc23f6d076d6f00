#pragma once

// Answers the calls of proto/worker.proto: resources (service_resources.cc) and closures
// (service_closures.cc). What compiles or reads files goes through one strand, in the order in
// which it was asked for; closures start at once and overlap (closure_run.h).
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

// Thread-safe. Always owned by a shared_ptr: calls that are under way keep it alive.
class WorkerService : public std::enable_shared_from_this<WorkerService> {
 public:
  struct Options {
    int compute_threads = 0;                      // 0: what Attach says
    int default_threads = 1;                      // used if neither says
    ReplicaStrands::ExecutorOf compute_executor;  // runs the programs of a replica
    RetryPolicy retry;
    FindCuda find_cuda;                     // null: programs run on the processor
    FindNccl find_nccl;                     // null: NCCL joins no GPUs
    std::string flight_directory;           // see GroupSessions
    size_t call_bytes_max = kCallBytesMax;  // MakeTransferPlan's
  };
  WorkerService(World world, Options options);

  // Sets the task's own service, which checks epochs. Called before service().
  void SetTaskService(std::shared_ptr<TaskService> task_service);

  // Sets the channel to variables that live in this process. Called before the first Attach.
  void SetHome(std::shared_ptr<Channel> channel);
  // Ends closures that wait for their turn, or for other workers, at the end of the task, and what
  // those ask of this one for as long as it is there.
  void Stop() {
    parts_->groups->Leave();
    parts_->gangs.Restart();
  }

  // Handles that a coordinator took this worker: where slices live, and how many threads compute.
  // Resources of another coordinator incarnation are dropped, since ids are a coordinator's own.
  void OnAttach(const proto::AttachRequest& request);

  // Returns the service to listen with. It keeps this object alive.
  Service service();
  // Returns the service for the other workers of gangs, which keeps this object alive, too.
  Service collective_service() { return parts_->groups->service(); }

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;

  template <typename Request, typename Response>
  void BindSlow(Service& service, const char* name,
                Answer<Response> (WorkerService::*method)(const Request&));
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

  // Returns the status as it leaves: with a class and an origin.
  absl::Status Refusal(const absl::Status& status) const;

  const Options options_;
  const std::shared_ptr<PeerReach> reach_;     // shared with those that need peers
  const std::shared_ptr<ClosureParts> parts_;  // shared with closures in flight
  ProgramCache programs_;
  ResourceTable resources_;
  Strand slow_calls_;
  Mutex mutex_;
  uint64_t coordinator_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
