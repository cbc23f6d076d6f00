#include "worker/variables_home/variables_home.h"

#include <map>
#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "common/runtime/update/gpu_memory.h"
#include "common/runtime/update/variable_memory.h"
#include "ps_server/grant_file.h"
#include "ps_server/service/ps_service.h"
#include "worker/devices/replica_runners.h"

namespace cohort {

namespace {

// The GPU memories in which variables of this worker may be placed. Thread-safe.
class OpenMemories {
 public:
  explicit OpenMemories(FindCuda find_cuda) : find_cuda_(std::move(find_cuda)) {}

  // Returns the memory of GPU number `gpu`, opening it if no variable has been placed there before.
  // The lock is held throughout, so that concurrent callers do not open one GPU twice.
  absl::StatusOr<std::shared_ptr<VariableMemory>> Find(int32_t gpu) {
    MutexLock lock(mutex_);
    std::shared_ptr<VariableMemory>& memory = open_[gpu];
    if (memory != nullptr) return memory;
    ASSIGN_OR_RETURN(const CudaTable* const table, CudaOf(find_cuda_));
    ASSIGN_OR_RETURN(memory, OpenGpuMemory(*table, gpu));
    return memory;
  }

 private:
  const FindCuda find_cuda_;
  Mutex mutex_;
  // The opened memories, by number of the GPU; shared with the slices in them.
  std::map<int32_t, std::shared_ptr<VariableMemory>> open_ ABSL_GUARDED_BY(mutex_);
};

// Returns a function that finds the memory of a device by its name, for variables whose home is
// this worker. A GPU's memory is opened when the first variable is placed in it, and stays open.
// The returned function is thread-safe. Its errors: FAILED_PRECONDITION naming the GPU, and why it
// cannot be used.
FindVariableMemory GpuMemories(FindCuda find_cuda) {
  auto memories = std::make_shared<OpenMemories>(std::move(find_cuda));
  return [memories](const std::string& device) -> absl::StatusOr<std::shared_ptr<VariableMemory>> {
    // Every name that is not a GPU's stands for the memory of the host.
    const std::optional<int32_t> gpu = GpuNumber(device);
    if (!gpu.has_value()) return HostMemory();
    return memories->Find(*gpu);
  };
}

}  // namespace

absl::Status AddVariablesHome(const VariablesHomeOptions& home, FileSystem& files,
                              WorkerTask::Options& worker) {
  // The grant of an epoch is kept in a file, so that a restarted process knows it.
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
    // The handlers of the service keep the PsService alive.
    return WorkerHome{service->service(), [gate](const proto::AttachRequest& request) {
                        gate->StartEpoch(request.epoch(), request.coordinator_incarnation());
                      }};
  };
  return absl::OkStatus();
}

}  // namespace cohort
