#pragma once

// The command `coordinator ctl`, with which an operator inspects a running job and changes its
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

// The name of the file in a state directory in which the coordinator writes the address of its
// service for operators.
inline constexpr char kCtlAddressFile[] = "coordinator.address";

struct CtlOptions {
  enum class Verb { kStatus, kAddWorker, kRemoveWorker, kFlightRecord };
  std::string address;
  Verb verb = Verb::kStatus;
  // The address of a worker. Empty: for kAddWorker, the coordinator starts a worker itself; for
  // kRemoveWorker, the worker with the task index `index` is removed.
  std::string worker;
  int index = 0;
  int calls_max = 16;  // for kFlightRecord: how many calls of each group to show at most
  // Flight files that kFlightRecord reads in place of asking a coordinator.
  std::vector<std::string> files;
  bool json = false;
  absl::Duration timeout = absl::Seconds(60);
};

using CtlCommand = std::variant<CtlOptions, PrintAndExit>;

// Parses the command-line arguments after the word "ctl". Errors: INVALID_ARGUMENT; NOT_FOUND for a
// state directory without a running coordinator.
absl::StatusOr<CtlCommand> ParseCtlCommandLine(const std::vector<std::string>& arguments,
                                               FileSystem& files);

struct CtlResult {
  ExitCode code = kExitOk;
  std::string output;
  std::string error;
};
// Runs the command and blocks on `waiter` until the coordinator answers. Exit codes: 0 done, 1
// refused, 2 a file cannot be used, 4 no coordinator answers.
CtlResult RunCtl(World world, Waiter& waiter, const CtlOptions& options);

// Returns the status as text: one line per member, then the state of the job.
std::string StatusText(const proto::GetJobStatusResponse& status);

}  // namespace cohort
