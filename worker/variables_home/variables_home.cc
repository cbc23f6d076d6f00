#include "worker/variables_home/variables_home.h"

#include <utility>

#include "common/base/status.h"
#include "ps_server/grant_file.h"
#include "ps_server/service/ps_service.h"
#include "worker/devices/gpu_memories.h"

namespace cohort {

absl::Status AddVariablesHome(const VariablesHomeOptions& home, FileSystem& files,
                              WorkerTask::Options& worker) {
  // The granted epoch is written to a file, so that it survives a restart of the process.
  if (!home.grant_file.empty()) {
    ASSIGN_OR_RETURN(worker.granted, ReadGrant(files, home.grant_file));
    worker.on_grant = [&files, path = home.grant_file](const EpochGrant& grant) {
      return WriteGrant(files, path, grant);
    };
  }
  worker.memory_bytes = home.resident_bytes_max;
  const auto index = static_cast<uint32_t>(worker.task.index);
  worker.make_home = [home, index, memories = GpuMemories(worker.find_cuda)](
                         World world, std::shared_ptr<TaskService> task_service) {
    auto gate = std::make_shared<PushGate>();
    const auto service = std::make_shared<PsService>(
        world,
        PsService::Parts{std::move(task_service), gate,
                         std::make_shared<ByteBudget>(home.receive_bytes_max),
                         std::make_shared<ByteBudget>(home.send_bytes_max)},
        VariableStore::Options{index, home.resident_bytes_max, memories});
    // The handlers in the service keep the service alive.
    return WorkerHome{service->service(), [gate](const proto::AttachRequest& request) {
                        gate->StartEpoch(request.epoch(), request.coordinator_incarnation());
                      }};
  };
  return absl::OkStatus();
}

}  // namespace cohort
