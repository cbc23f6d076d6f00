#include "worker/program/program_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernels/cpu/register.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

namespace {

// Returns the bytes of the request's fields that decide how the program is bound to its variables:
// all but the program itself and the epoch.
std::string RegistrationOf(const proto::RegisterProgramRequest& request) {
  proto::RegisterProgramRequest rest = request;
  // The epoch is left out, so that a request repeated under a new epoch counts as the same
  // registration.
  rest.clear_epoch();
  rest.clear_program();
  return rest.SerializeAsString();
}

}  // namespace

void ProgramCache::SetThreads(int threads) {
  MutexLock lock(mutex_);
  threads_ = threads;
}

absl::Status ProgramCache::Register(const proto::RegisterProgramRequest& request) {
  const std::string registration = RegistrationOf(request);
  ASSIGN_OR_RETURN(const int replicas, NumReplicas(request.program()));
  std::shared_ptr<const KernelRegistry> kernels;
  {
    MutexLock lock(mutex_);
    // The replicas of a program share the threads equally.
    if (threads_ == 0) return absl::FailedPreconditionError("no coordinator has attached");
    const int threads = std::max(1, threads_ / replicas);
    std::shared_ptr<const KernelRegistry>& known = kernels_[threads];
    if (known == nullptr) {
      auto made = std::make_shared<KernelRegistry>();
      RegisterCpuKernels(*made, threads);
      RegisterExchangeKernels(*made);
      known = std::move(made);
    }
    // Kernels are made once for each number of threads; all programs with this number share them.
    kernels = known;
    const auto found = programs_.find(request.program_id());
    // A program that is registered again with equal fields keeps its compiled form.
    if (found != programs_.end() && found->second->registration == registration) {
      return absl::OkStatus();
    }
    if (found == programs_.end() && programs_.size() >= kProgramsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this worker holds ", programs_.size(), " programs, its limit"));
    }
  }
  // The program is compiled outside the lock, because compiling is slow.
  ASSIGN_OR_RETURN(
      std::shared_ptr<const WorkerProgram> program,
      MakeWorkerProgram(request, registration,
                        {*kernels, allocate_outputs_, find_cuda_, find_nccl_, call_bytes_max_}));
  MutexLock lock(mutex_);
  programs_[request.program_id()] = std::move(program);
  return absl::OkStatus();
}

std::shared_ptr<const WorkerProgram> ProgramCache::Find(const std::string& program_id) const {
  MutexLock lock(mutex_);
  const auto found = programs_.find(program_id);
  return found == programs_.end() ? nullptr : found->second;
}

void ProgramCache::Clear() {
  // The cleared programs are destroyed after the lock is released.
  std::map<std::string, std::shared_ptr<const WorkerProgram>> cleared;
  MutexLock lock(mutex_);
  cleared.swap(programs_);
}

}  // namespace cohort
