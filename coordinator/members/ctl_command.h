#pragma once

// The command `coordinator ctl`, by which an operator looks at a running job and changes its
// workers.

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/file_system.h"
#include "common/cluster/command_line.h"
#include "common/cluster/exit_codes.h"
#include "common/wire/world.h"
#include "proto/ctl.pb.h"

namespace cohort {

// The name of a file in a state directory. In it the coordinator writes the address at which it
// serves operators.
inline constexpr char kCtlAddressFile[] = "coordinator.address";

struct CtlOptions {
  enum class Verb { kStatus, kAddWorker, kRemoveWorker, kFlightRecord };
  std::string address;
  Verb verb = Verb::kStatus;
  // The address of a worker. If empty, kAddWorker makes the coordinator start a worker itself, and
  // kRemoveWorker removes the worker with the task index `index`.
  std::string worker;
  int index = 0;
  int calls_max = 16;  // the most calls of a group that kFlightRecord shows
  // Flight files. If any are named, kFlightRecord reads them instead of asking a coordinator.
  std::vector<std::string> files;
  bool json = false;
  absl::Duration timeout = absl::Seconds(60);
};

using CtlCommand = std::variant<CtlOptions, PrintAndExit>;

// Parses the command-line arguments that follow the word "ctl". Errors: INVALID_ARGUMENT for a
// wrong command line; NOT_FOUND for a state directory without a running coordinator.
absl::StatusOr<CtlCommand> ParseCtlCommandLine(const std::vector<std::string>& arguments,
                                               FileSystem& files);

struct CtlResult {
  ExitCode code = kExitOk;
  std::string output;
  std::string error;
};
// Runs the command, and blocks the calling thread until the coordinator answers. The exit codes: 0
// done, 1 the coordinator refused, 2 a file cannot be used, 4 no coordinator answers.
CtlResult RunCtl(World world, Waiter& waiter, const CtlOptions& options);

// Returns a job's status as text: a line per member, and then the state of the job.
std::string StatusText(const proto::GetJobStatusResponse& status);

}  // namespace cohort
