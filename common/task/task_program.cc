#include "common/task/task_program.h"

#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <variant>

#include "common/base/log.h"
#include "common/base/posix_file_system.h"
#include "common/base/rng.h"
#include "common/base/standard_output.h"
#include "common/base/turns.h"
#include "common/cluster/exit_codes.h"
#include "common/cluster/process_limits.h"

namespace cohort {

namespace {

// Drains the task's open calls. Returns `code` if all calls have ended within `grace`; otherwise
// ends the process with kExitDrainTimeout.
int DrainAndReport(const ServedTask& task, absl::Duration grace, const Clock& clock,
                   ExitCode code) {
  const absl::Time start = clock.Now();
  task.drain(grace);
  const absl::Duration took = clock.Now() - start;
  // The drain ends early if all calls have ended. A drain that uses the whole grace time has timed
  // out.
  const bool timed_out = took >= grace;
  Log(timed_out ? LogLevel::kWarning : LogLevel::kInfo, "stopped",
      {{"drained", timed_out ? "no" : "yes"}, {"seconds", absl::ToDoubleSeconds(took)}});
  if (!timed_out) return code;
  std::fflush(nullptr);
  // _exit ends the process without running destructors, because calls that are still open use the
  // task's objects.
  _exit(kExitDrainTimeout);
}

}  // namespace

int RunTaskProgram(Role role, const std::vector<std::string>& arguments,
                   const std::function<int(const RoleOptions&)>& serve) {
  KeepStandardDescriptors();
  IgnoreSignalsOfWrites();
  TuneAllocator();
  SetTurns(Turns::kShort);
  // A malformed message from a peer is answered with an error, so protobuf need not also write the
  // problem to this task's log.
  google::protobuf::SetLogHandler(nullptr);
  PosixFileSystem files;
  const absl::StatusOr<RoleCommand> command =
      ParseRoleCommandLine(role, arguments, ProcessEnvironment(), files);
  if (!command.ok()) {
    std::fprintf(stderr, "%s\n", std::string(command.status().message()).c_str());
    return kExitBadConfig;
  }
  if (const PrintAndExit* const print = std::get_if<PrintAndExit>(&*command)) {
    // A full disk or a closed pipe makes the output incomplete, and the exit code must tell a
    // script about that.
    const absl::Status written = WriteToStdout(print->text);
    if (written.ok()) return print->exit_code;
    std::fprintf(stderr, "error: %s\n", std::string(written.message()).c_str());
    return kExitJobFailed;
  }
  if (const absl::Status polling = CheckPollStrategy(ProcessEnvironment()); !polling.ok()) {
    std::fprintf(stderr, "%s\n", std::string(polling.message()).c_str());
    return kExitBadConfig;
  }
  if (const absl::Status files_open = RaiseOpenFiles(); !files_open.ok()) {
    std::fprintf(stderr, "%s\n", std::string(files_open.message()).c_str());
    return kExitCannotListen;
  }
  const RoleOptions& options = std::get<RoleOptions>(*command);
  // From this point on, errors go to the configured log and not directly to stderr.
  ConfigureLog(options.log_level, options.task.ToString());
  Log(LogLevel::kInfo, "options", {{"json", RoleOptionsToJson(options)}});
  return serve(options);
}

uint64_t NewIncarnation(const Clock& clock) {
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(clock.Now()));
  // An incarnation is never 0, because 0 means an unknown incarnation.
  return std::max<uint64_t>(1, Mix64(Mix64(now) ^ static_cast<uint64_t>(getpid())));
}

int ServeUntilStopped(const RoleOptions& options, const ServedTask& task, const World& world,
                      SignalWaiter& signals) {
  const absl::StatusOr<std::string> address = task.start();
  if (!address.ok()) {
    Log(LogLevel::kError, "cannot_listen", {{"error", address.status().message()}});
    return kExitCannotListen;
  }
  Log(LogLevel::kInfo, "serving", {{"address", *address}, {"incarnation", task.incarnation}});
  // The address is announced after the task has begun to listen, because a reader of the address
  // file may connect at once.
  const absl::Status announced = AnnounceAddress(world.files, options, *address);
  if (!announced.ok()) {
    Log(LogLevel::kError, "cannot_announce", {{"error", announced.message()}});
    return kExitBadConfig;
  }
  const int signal = signals.Wait();
  if (signal == 0 && task.orphaned->load()) {
    Log(LogLevel::kWarning, "orphaned",
        {{"cause",
          absl::StrCat("no coordinator came for ", absl::FormatDuration(options.orphan_timeout),
                       " (--orphan_timeout)")}});
    return DrainAndReport(task, options.drain_timeout, world.clock, kExitOrphaned);
  }
  Log(LogLevel::kInfo, "stopping", {{"signal", signal}});
  return DrainAndReport(task, options.drain_timeout, world.clock, kExitOk);
}

}  // namespace cohort
