// The executable `worker`: a worker task that runs closures for a coordinator until SIGTERM, SIGINT
// or the Shutdown call tells it to stop. Exit codes: common/cluster/exit_codes.h.

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/module.h"
#include "common/base/posix_file_system.h"
#include "common/cluster/environment.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"
#include "common/runtime/cuda/cuda_library.h"
#include "common/task/task_program.h"
#include "common/wire/route/real_world.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/devices/compute_share.h"
#include "worker/service/worker_task.h"
#include "worker/variables_home/variables_home.h"

namespace cohort {
namespace {

// The number of threads of the worker's executor, which makes batches, copies large pulls, handles
// slow calls and serves the variables of this process. Programs are computed on threads of their
// own.
constexpr int kServiceThreads = 3;

// Starts this process again with OMP_WAIT_POLICY=passive, unless that environment variable is set.
// OpenMP, which oneDNN uses, reads its environment variables when the library is loaded, before
// main(). Without the setting, idle OpenMP threads spin and take the processor from the parameter
// servers on the same machine.
void StartAgainWithPassiveOpenMp(const Environment& environment, char** argv) {
  if (environment("OMP_WAIT_POLICY").has_value()) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  // The executable is started by its own path, because the kernel names a process after the file
  // that the process runs: started through /proc/self/exe, the worker would be called "exe".
  execv(ExecutablePath().c_str(), argv);
  // The second attempt serves a worker whose executable file was replaced after the start, so that
  // the first execv() failed. Without /proc both fail; the process then goes on with spinning
  // threads.
  execv("/proc/self/exe", argv);
}

// Runs the worker until a signal or the coordinator stops it, and returns the process's exit code.
int Serve(const RoleOptions& options) {
  SignalWaiter signals;  // before all threads, so that they inherit the blocked signals
  RealWorld machine(kServiceThreads, options.transport);
  const World world = machine.world();
  ComputeThreads compute;
  WorkerTask::Options task_options;
  task_options.task = options.task;  // AddVariablesHome() below reads the index
  task_options.compute_threads = options.compute_threads;
  task_options.default_threads = ComputeShare(options.cluster, options.task, ProcessorCount());
  task_options.compute_executor = [&compute](size_t replica) -> Executor& {
    return compute.Of(replica);
  };
  // CUDA and NCCL are loaded only when a program asks for a GPU or a coordinator lists the devices.
  task_options.find_cuda = [] { return LoadCuda(ModulePath("libcohort_cuda.so")); };
  task_options.find_nccl = [] { return LoadNccl(NcclModulePath()); };
  task_options.flight_directory = options.flight_directory;
  task_options.data_directory = WorkingDirectory();
  task_options.own_cluster = options.cluster;
  // Every worker can be a home of variables, even if the job has parameter servers.
  VariablesHomeOptions home;
  home.resident_bytes_max = PhysicalMemory();
  home.receive_bytes_max = static_cast<size_t>(options.receive_buffer_mib) << 20;
  home.send_bytes_max = static_cast<size_t>(options.send_buffer_mib) << 20;
  home.grant_file = options.grant_file;
  if (const absl::Status added = AddVariablesHome(home, world.files, task_options); !added.ok()) {
    Log(LogLevel::kError, "start_failed", {{"cause", added.message()}});
    return kExitBadConfig;
  }
  Log(LogLevel::kInfo, "threads", {{"default", task_options.default_threads}});
  return ServeTask<WorkerTask>(options, std::move(task_options), world, signals);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::StartAgainWithPassiveOpenMp(cohort::ProcessEnvironment(), argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return cohort::RunTaskProgram(cohort::Role::kWorker, arguments, cohort::Serve);
}
