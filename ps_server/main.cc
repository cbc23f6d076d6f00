// The daemon `ps`: a parameter server that serves until SIGTERM, SIGINT or the Shutdown call stops
// it. Its exit codes are in common/cluster/exit_codes.h.

#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"
#include "common/task/task_program.h"
#include "common/wire/route/real_world.h"
#include "ps_server/grant_file.h"
#include "ps_server/ps_task.h"

namespace cohort {
namespace {

// Runs the parameter server until it is stopped, and returns the exit code.
int Serve(const RoleOptions& options) {
  SignalWaiter signals;  // made before all threads, which inherit the blocked signals
  RealWorld machine(options.compute_threads > 0 ? options.compute_threads : ProcessorCount(),
                    options.transport);
  const World world = machine.world();
  PsTask::Options task_options;
  task_options.resident_bytes_max = PhysicalMemory();
  task_options.receive_bytes_max = static_cast<size_t>(options.receive_buffer_mib) << 20;
  task_options.send_bytes_max = static_cast<size_t>(options.send_buffer_mib) << 20;
  task_options.grant_file = options.grant_file;
  if (!options.grant_file.empty()) {
    // The server does not start with a damaged grant file, because it could then grant the same
    // epoch twice.
    const absl::StatusOr<EpochGrant> granted = ReadGrant(world.files, options.grant_file);
    if (!granted.ok()) {
      Log(LogLevel::kError, "start_failed", {{"cause", granted.status().message()}});
      return kExitBadConfig;
    }
    task_options.granted = *granted;
  }
  return ServeTask<PsTask>(options, std::move(task_options), world, signals);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return cohort::RunTaskProgram(cohort::Role::kPs, arguments, cohort::Serve);
}
