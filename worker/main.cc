// The program `worker`: runs closures for a coordinator until it is told to stop, by SIGTERM,
// SIGINT or the Shutdown call. Exit codes: common/cluster/exit_codes.h.

#include <google/protobuf/stubs/logging.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/rng.h"
#include "common/base/thread_pool.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"
#include "common/wire/allocator.h"
#include "common/wire/grpc_transport.h"
#include "worker/compute_share.h"
#include "worker/worker_task.h"

namespace cohort {
namespace {

// Batches, copies of large pulls and resources; programs have a thread of their own.
constexpr int kServiceThreads = 2;

// OpenMP, under oneDNN, reads its variables when it is loaded, which is before main. Threads that
// spin while they wait would take the processor from the parameter servers of the same machine.
void StartAgainWithPassiveOpenMp(const Environment& environment, char** argv) {
  if (environment("OMP_WAIT_POLICY").has_value()) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // without /proc it goes on as it is, only slower
}

// Differs from start to start, on one machine by the process id even within one tick of the clock.
uint64_t NewIncarnation(const Clock& clock) {
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(clock.Now()));
  return std::max<uint64_t>(1, Mix64(Mix64(now) ^ static_cast<uint64_t>(getpid())));
}

int DrainAndReport(WorkerTask& task, const RoleOptions& options, const Clock& clock) {
  const absl::Time start = clock.Now();
  task.Drain(options.drain_timeout);
  const absl::Duration took = clock.Now() - start;
  const bool timed_out = took >= options.drain_timeout;
  Log(timed_out ? LogLevel::kWarning : LogLevel::kInfo, "stopped",
      {{"drained", timed_out ? "no" : "yes"}, {"seconds", absl::ToDoubleSeconds(took)}});
  if (!timed_out) return kExitOk;
  // Closures still run: leave without taking the world away under them.
  std::fflush(nullptr);
  _exit(kExitDrainTimeout);
}

int Serve(const RoleOptions& options, FileSystem& files) {
  SignalWaiter signals;  // first: every thread inherits the blocked signals
  RealClock clock;
  ThreadPool executor(ThreadPool::Options{"worker", kServiceThreads});
  ThreadPool compute(ThreadPool::Options{"compute", 1});
  GrpcTransport transport;
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  WorkerTask::Options task_options;
  task_options.task = options.task;
  task_options.listen_address = options.listen_address;
  task_options.incarnation = NewIncarnation(clock);
  task_options.compute_threads = options.compute_threads;
  task_options.default_threads = ComputeShare(options.cluster, options.task, processors);
  task_options.compute_executor = &compute;
  task_options.on_shutdown = [&signals] { signals.Wake(); };
  WorkerTask task(World{clock, executor, files, transport}, task_options);
  const absl::StatusOr<std::string> address = task.Start();
  if (!address.ok()) {
    Log(LogLevel::kError, "cannot_listen", {{"error", address.status().message()}});
    return kExitCannotListen;
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", *address},
       {"incarnation", task_options.incarnation},
       {"default_threads", task_options.default_threads}});
  const absl::Status announced = AnnounceAddress(files, options, *address);
  if (!announced.ok()) {
    Log(LogLevel::kError, "cannot_announce", {{"error", announced.message()}});
    return kExitBadConfig;
  }
  const int signal = signals.Wait();
  Log(LogLevel::kInfo, "stopping", {{"signal", signal}});
  return DrainAndReport(task, options, clock);
}

int Main(const std::vector<std::string>& arguments) {
  TuneAllocator();
  // What a peer sends is answered with an error, not written to this task's log.
  google::protobuf::SetLogHandler(nullptr);
  PosixFileSystem files;
  const absl::StatusOr<RoleCommand> command =
      ParseRoleCommandLine(Role::kWorker, arguments, ProcessEnvironment(), files);
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
  return Serve(options, files);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::StartAgainWithPassiveOpenMp(cohort::ProcessEnvironment(), argv);
  return cohort::Main(std::vector<std::string>(argv + 1, argv + argc));
}
