#pragma once

// A worker's programs, keyed by a hash of their content. A program that is registered again with
// equal variables keeps its compiled form. If layouts of variables or the seed have changed, the
// program is compiled and bound to its variables again.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/program/worker_program.h"

namespace cohort {

// The largest number of programs of one worker.
inline constexpr size_t kProgramsMax = 4096;

// The registered programs of one worker. Thread-safe.
class ProgramCache {
 public:
  // Makes a cache. `allocate_outputs` is passed to ProgramRunner and `call_bytes_max` to
  // MakeTransferPlan; the other parameters may be null.
  ProgramCache(AllocateBuffer allocate_outputs, FindCuda find_cuda, FindNccl find_nccl,
               size_t call_bytes_max)
      : allocate_outputs_(std::move(allocate_outputs)),
        find_cuda_(std::move(find_cuda)),
        find_nccl_(std::move(find_nccl)),
        call_bytes_max_(call_bytes_max) {}

  // Sets how many threads compute the programs that are registered from now on. The replicas of a
  // program share the threads equally.
  void SetThreads(int threads);

  // Compiles a program and keeps it, which is slow. Errors: those of MakeWorkerProgram;
  // RESOURCE_EXHAUSTED beyond kProgramsMax; FAILED_PRECONDITION before SetThreads.
  absl::Status Register(const proto::RegisterProgramRequest& request);

  // Returns the program, or null if `program_id` is not registered.
  std::shared_ptr<const WorkerProgram> Find(const std::string& program_id) const;

  void Clear();

 private:
  const AllocateBuffer allocate_outputs_;
  const FindCuda find_cuda_;
  const FindNccl find_nccl_;
  const size_t call_bytes_max_;
  mutable Mutex mutex_;
  // Threads for a program; 0: SetThreads has not been called.
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  // The registries of kernels, by number of threads; shared with registrations under way.
  std::map<int, std::shared_ptr<const KernelRegistry>> kernels_ ABSL_GUARDED_BY(mutex_);
  // The programs by id, shared with closures in flight.
  std::map<std::string, std::shared_ptr<const WorkerProgram>> programs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
