#pragma once

// A worker's programs, by id, which is a hash of the program's content. A program that is
// registered again with equal layouts of its variables and an equal seed keeps its compiled form;
// otherwise it is compiled and bound to its variables again.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/program/worker_program.h"

namespace cohort {

// The largest number of programs that one worker holds.
inline constexpr size_t kProgramsMax = 4096;

// The registered programs of one worker. Thread-safe.
class ProgramCache {
 public:
  // Makes an empty cache. `allocate_outputs` is passed to ProgramRunner and `call_bytes_max` to
  // MakeTransferPlan; `find_cuda` and `find_nccl` may be null.
  ProgramCache(AllocateBuffer allocate_outputs, FindCuda find_cuda, FindNccl find_nccl,
               size_t call_bytes_max)
      : allocate_outputs_(std::move(allocate_outputs)),
        find_cuda_(std::move(find_cuda)),
        find_nccl_(std::move(find_nccl)),
        call_bytes_max_(call_bytes_max) {}

  // Sets the number of threads that compute a program, for programs that are registered from now
  // on. The replicas of a program divide the threads equally among themselves.
  void SetThreads(int threads);

  // Compiles a program and keeps it, which is slow. A repeated registration returns at once.
  // Errors: those of MakeWorkerProgram; RESOURCE_EXHAUSTED if the worker holds kProgramsMax
  // programs; FAILED_PRECONDITION before SetThreads().
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
  // Number of threads that compute a program; 0 before SetThreads().
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  // The kernel registries by number of threads; shared with registrations under way.
  std::map<int, std::shared_ptr<const KernelRegistry>> kernels_ ABSL_GUARDED_BY(mutex_);
  // The programs by id; shared with closures in flight.
  std::map<std::string, std::shared_ptr<const WorkerProgram>> programs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
