#include "worker/devices/gpu_memories.h"

#include <map>
#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "common/runtime/update/gpu_memory.h"

namespace cohort {

namespace {

// The memories of the GPUs that have been opened. Thread-safe.
class OpenMemories {
 public:
  explicit OpenMemories(FindCuda find_cuda) : find_cuda_(std::move(find_cuda)) {}

  // Returns the memory of `gpu` and opens it if needed. The lock is held during the opening, so
  // that concurrent callers cannot open one GPU twice.
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
  // The opened memories by GPU number, shared with the slices that lie in them.
  std::map<int32_t, std::shared_ptr<VariableMemory>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

FindVariableMemory GpuMemories(FindCuda find_cuda) {
  auto memories = std::make_shared<OpenMemories>(std::move(find_cuda));
  return [memories](const std::string& device) -> absl::StatusOr<std::shared_ptr<VariableMemory>> {
    // A device name that does not name a GPU means the memory of the host.
    const std::optional<int32_t> gpu = GpuNumber(device);
    if (!gpu.has_value()) return HostMemory();
    return memories->Find(*gpu);
  };
}

}  // namespace cohort
