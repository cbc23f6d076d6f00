#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/event.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/standard_output.h"
#include "common/base/turns.h"
#include "common/cluster/environment.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/process_limits.h"
#include "common/cluster/signals.h"
#include "common/wire/route/real_world.h"
#include "coordinator/daemon/coordinator_daemon.h"
#include "coordinator/daemon/job_paths.h"
#include "coordinator/inspect/inspect_command.h"
#include "coordinator/members/ctl_command.h"
#include "coordinator/records/data_command.h"

namespace {

using cohort::CoordinatorDaemon;

// Collects what the daemon has to know about its machine and its environment variables.
CoordinatorDaemon::Environment DescribeProcess(const cohort::Environment& environment) {
  CoordinatorDaemon::Environment result;
  result.processors = cohort::ProcessorCount();
  result.process = "process " + std::to_string(getpid()) + " on host " + cohort::HostName();
  result.mnist = cohort::MnistSearchOf(environment);
  return result;
}

// Prints the output and returns `code`. If stdout cannot be written, prints the output to stderr
// and returns a failure.
int Report(const std::string& output, int code) {
  const absl::Status written = cohort::WriteToStdout(output);
  if (written.ok()) return code;
  std::fprintf(stderr, "error: %s; what it would have said: %s",
               std::string(written.message()).c_str(), output.c_str());
  return code == cohort::kExitOk ? cohort::kExitJobFailed : code;
}

// Runs one job on a thread of its own, while this thread waits for signals.
int RunJob(cohort::CoordinatorOptions options, const cohort::Environment& environment) {
  cohort::SignalWaiter signals;
  cohort::RealWorld world(2, options.transport);
  const absl::Duration drain_timeout = options.drain_timeout;
  cohort::BlockingWaiter waiter;
  CoordinatorDaemon daemon(world.world(), waiter, std::move(options), DescribeProcess(environment));
  CoordinatorDaemon::Result result;
  cohort::Event ended;
  std::thread job([&] {
    result = daemon.Run();
    ended.Notify();
    signals.Wake();
  });
  // 0 means that the job has ended and has woken this thread.
  if (const int signal = signals.Wait(); signal != 0) {
    daemon.Interrupt(cohort::SignalName(signal));
    if (!ended.WaitFor(drain_timeout)) {
      const CoordinatorDaemon::GivenUp given_up = daemon.GiveUp();
      Log(cohort::LogLevel::kError, "drain_timeout", {{"waits_for", given_up.waits_for}});
      std::fputs(given_up.error.c_str(), stderr);
      // Ends without destructors, because the job's thread still uses the world of this function.
      _exit(given_up.code);
    }
  }
  job.join();
  std::fputs(result.error.c_str(), stderr);
  return Report(result.output, result.code);
}

// Runs `coordinator ctl`, which needs no job and no cluster.
int RunCtlCommand(const std::vector<std::string>& arguments) {
  cohort::PosixFileSystem files;
  const auto command = cohort::ParseCtlCommandLine(arguments, files);
  if (!command.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(command.status().message()).c_str());
    return cohort::kExitBadConfig;
  }
  if (const auto* print = std::get_if<cohort::PrintAndExit>(&*command)) {
    return Report(print->text, print->exit_code);
  }
  // Operators read the output, so the log says only errors.
  cohort::ConfigureLog(cohort::LogLevel::kError, "ctl");
  cohort::RealWorld world(1, cohort::TransportKind::kTcp);
  cohort::BlockingWaiter waiter;
  const cohort::CtlResult result =
      cohort::RunCtl(world.world(), waiter, std::get<cohort::CtlOptions>(*command));
  std::fputs(result.error.c_str(), stderr);
  return Report(result.output, result.code);
}

// Runs `coordinator model`, `coordinator checkpoint` or `coordinator data`, which read files and
// need no cluster.
int RunFileCommand(const std::vector<std::string>& arguments) {
  cohort::ConfigureLog(cohort::LogLevel::kError, arguments.front());
  cohort::PosixFileSystem files;
  const cohort::InspectResult result = arguments.front() == "data"
                                           ? cohort::RunDataCommand(arguments, files)
                                           : cohort::RunInspect(arguments, files);
  std::fputs(result.error.c_str(), stderr);
  return Report(result.output, result.code);
}

}  // namespace

int main(int argc, char** argv) {
  cohort::KeepStandardDescriptors();
  cohort::IgnoreSignalsOfWrites();
  cohort::TuneAllocator();
  cohort::SetTurns(cohort::Turns::kShort);
  // `ctl` has flags of its own.
  if (argc > 1 && std::string(argv[1]) == "ctl") return RunCtlCommand({argv + 2, argv + argc});
  if (argc > 1 && (std::string(argv[1]) == "data" || cohort::IsInspectCommand(argv[1]))) {
    return RunFileCommand({argv + 1, argv + argc});
  }
  const cohort::Environment environment = cohort::ProcessEnvironment();
  cohort::PosixFileSystem files;
  auto command = cohort::ParseCoordinatorCommandLine({argv + 1, argv + argc}, environment, files);
  if (!command.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(command.status().message()).c_str());
    return cohort::kExitBadConfig;
  }
  if (const auto* print = std::get_if<cohort::PrintAndExit>(&*command)) {
    return Report(print->text, print->exit_code);
  }
  if (const absl::Status polling = cohort::CheckPollStrategy(environment); !polling.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(polling.message()).c_str());
    return cohort::kExitBadConfig;
  }
  if (const absl::Status files_open = cohort::RaiseOpenFiles(); !files_open.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(files_open.message()).c_str());
    return cohort::kExitCannotListen;
  }
  auto& options = std::get<cohort::CoordinatorOptions>(*command);
  cohort::ConfigureLog(options.log_level, "chief:0");
  return RunJob(std::move(options), environment);
}
