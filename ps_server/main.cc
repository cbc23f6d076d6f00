// The program `ps`: a parameter server that serves until it is told to stop, by SIGTERM, SIGINT or
// the Shutdown call. Exit codes: common/cluster/exit_codes.h.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/posix_file_system.h"
#include "common/base/rng.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"
#include "common/wire/allocator.h"
#include "common/wire/real_world.h"
#include "ps_server/ps_task.h"

namespace cohort {
namespace {

// Differs from start to start, on one machine by the process id even within one tick of the clock.
uint64_t NewIncarnation(const Clock& clock) {
  const uint64_t now = static_cast<uint64_t>(absl::ToUnixNanos(clock.Now()));
  return std::max<uint64_t>(1, Mix64(Mix64(now) ^ static_cast<uint64_t>(getpid())));
}

size_t PhysicalMemory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(pages) * static_cast<size_t>(page_size);
}

int ThreadsOf(const RoleOptions& options) {
  if (options.compute_threads > 0) return options.compute_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int DrainAndReport(PsTask& task, const RoleOptions& options, const Clock& clock) {
  const absl::Time start = clock.Now();
  task.Drain(options.drain_timeout);
  const absl::Duration took = clock.Now() - start;
  const bool timed_out = took >= options.drain_timeout;
  Log(timed_out ? LogLevel::kWarning : LogLevel::kInfo, "stopped",
      {{"drained", timed_out ? "no" : "yes"}, {"seconds", absl::ToDoubleSeconds(took)}});
  return timed_out ? kExitDrainTimeout : kExitOk;
}

int Serve(const RoleOptions& options) {
  SignalWaiter signals;  // first: every thread inherits the blocked signals
  RealWorld machine(ThreadsOf(options));
  const World world = machine.world();
  PsTask::Options task_options;
  task_options.task = options.task;
  task_options.listen_address = options.listen_address;
  task_options.incarnation = NewIncarnation(world.clock);
  task_options.resident_bytes_max = PhysicalMemory();
  task_options.on_shutdown = [&signals] { signals.Wake(); };
  PsTask task(world, task_options);
  const absl::StatusOr<std::string> address = task.Start();
  if (!address.ok()) {
    Log(LogLevel::kError, "cannot_listen", {{"error", address.status().message()}});
    return kExitCannotListen;
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", *address}, {"incarnation", task_options.incarnation}});
  const absl::Status announced = AnnounceAddress(world.files, options, *address);
  if (!announced.ok()) {
    Log(LogLevel::kError, "cannot_announce", {{"error", announced.message()}});
    return kExitBadConfig;
  }
  const int signal = signals.Wait();
  Log(LogLevel::kInfo, "stopping", {{"signal", signal}});
  return DrainAndReport(task, options, world.clock);
}

int Main(const std::vector<std::string>& arguments) {
  TuneAllocator();
  // What a peer sends is answered with an error, not written to this task's log.
  google::protobuf::SetLogHandler(nullptr);
  PosixFileSystem files;
  const absl::StatusOr<RoleCommand> command =
      ParseRoleCommandLine(Role::kPs, arguments, ProcessEnvironment(), files);
  if (!command.ok()) {
    std::fprintf(stderr, "%s\n", std::string(command.status().message()).c_str());
    return kExitBadConfig;
  }
  if (const PrintAndExit* const print = std::get_if<PrintAndExit>(&*command)) {
    std::fputs(print->text.c_str(), stdout);
    return print->exit_code;
  }
  const RoleOptions& options = std::get<RoleOptions>(*command);
  ConfigureLog(options.log_level, options.task.ToString());
  Log(LogLevel::kInfo, "options", {{"json", RoleOptionsToJson(options)}});
  return Serve(options);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  return cohort::Main(std::vector<std::string>(argv + 1, argv + argc));
}
