#pragma once

// The programs of a worker by content hash. A program that is registered again with the same
// variables is kept; with other layouts or seed it is bound anew.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/program/worker_program.h"

namespace cohort {

inline constexpr size_t kProgramsMax = 4096;

// Thread-safe.
class ProgramCache {
 public:
  // Makes a cache. `allocate_outputs` is ProgramRunner's and `call_bytes_max` MakeTransferPlan's;
  // the others may be null.
  ProgramCache(AllocateBuffer allocate_outputs, FindCuda find_cuda, FindNccl find_nccl,
               size_t call_bytes_max)
      : allocate_outputs_(std::move(allocate_outputs)),
        find_cuda_(std::move(find_cuda)),
        find_nccl_(std::move(find_nccl)),
        call_bytes_max_(call_bytes_max) {}

  // Sets how many threads compute a program that is registered from now on. Several replicas have
  // an equal share each.
  void SetThreads(int threads);

  // Compiles: slow. Errors: those of MakeWorkerProgram; RESOURCE_EXHAUSTED beyond kProgramsMax;
  // FAILED_PRECONDITION before SetThreads.
  absl::Status Register(const proto::RegisterProgramRequest& request);

  // Returns null if there is none.
  std::shared_ptr<const WorkerProgram> Find(const std::string& program_id) const;

  void Clear();

 private:
  const AllocateBuffer allocate_outputs_;
  const FindCuda find_cuda_;
  const FindNccl find_nccl_;
  const size_t call_bytes_max_;
  mutable Mutex mutex_;
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nobody has said
  // By number of threads. Shared with registrations under way.
  std::map<int, std::shared_ptr<const KernelRegistry>> kernels_ ABSL_GUARDED_BY(mutex_);
  // Shared with closures in flight.
  std::map<std::string, std::shared_ptr<const WorkerProgram>> programs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
