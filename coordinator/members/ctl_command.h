#pragma once

// `coordinator ctl`: what an operator asks of a running coordinator.

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

// The file in a state directory that says where its coordinator serves operators.
inline constexpr char kCtlAddressFile[] = "coordinator.address";

struct CtlOptions {
  enum class Verb { kStatus, kAddWorker, kRemoveWorker, kFlightRecord };
  std::string address;
  Verb verb = Verb::kStatus;
  // An address. Empty: kAddWorker lets the coordinator start one, kRemoveWorker means `index`.
  std::string worker;
  int index = 0;
  int calls_max = 16;              // for kFlightRecord, of each group
  std::vector<std::string> files;  // for the same: read instead of asking a coordinator
  bool json = false;
  absl::Duration timeout = absl::Seconds(60);
};

using CtlCommand = std::variant<CtlOptions, PrintAndExit>;

// Parses the arguments after "ctl". Errors: INVALID_ARGUMENT; NOT_FOUND for a state directory
// without a running coordinator.
absl::StatusOr<CtlCommand> ParseCtlCommandLine(const std::vector<std::string>& arguments,
                                               FileSystem& files);

struct CtlResult {
  ExitCode code = kExitOk;
  std::string output;
  std::string error;
};
// Blocks on `waiter`. Exit codes: 0 done, 1 refused, 2 a file cannot be used, 4 no coordinator
// answers.
CtlResult RunCtl(World world, Waiter& waiter, const CtlOptions& options);

// Returns one line per member, then the state of the job.
std::string StatusText(const proto::GetJobStatusResponse& status);

}  // namespace cohort
