#pragma once

// The command line of the coordinator: flags, TF_CONFIG and the job file. A flag overrides
// TF_CONFIG, TF_CONFIG overrides the job file, and the job file overrides defaults. All mistakes
// are found before any task is started.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/command_line.h"
#include "common/cluster/environment.h"
#include "common/cluster/transport_kind.h"
#include "coordinator/job/job_spec.h"

namespace cohort {

// The numbers of tasks that the coordinator starts itself.
struct LocalTasks {
  int ps = 0;
  int workers = 0;
};

struct CoordinatorOptions {
  std::string job_file;
  JobSpec job;
  std::optional<LocalTasks> local;  // absent: the cluster is that of TF_CONFIG
  ClusterSpec cluster;              // the cluster of TF_CONFIG; empty with --local
  std::string state_directory;      // where local tasks keep addresses, process ids and logs
  // True if the state directory was made for this start: the same command has another one.
  bool state_directory_is_new = false;
  // After this time without a coordinator, a local task ends by itself; zero: never.
  absl::Duration orphan_timeout = absl::Seconds(30);
  // The address at which the coordinator serves operators, and a file to which it writes that
  // address. Empty: none.
  std::string ctl_address;
  std::string ctl_address_file;
  // True: the flag --ctl_address was given, so the job must not begin unless it can serve
  // operators.
  bool ctl_required = false;
  std::string membership;  // the list of workers (membership_source.h); empty: the cluster's
  absl::Duration drain_timeout = absl::Seconds(10);  // how long tasks may drain after SIGTERM
  // True: the tasks of TF_CONFIG run on after the job, for the next job.
  bool keep_tasks = false;
  // True: the job takes the tasks of TF_CONFIG even from another job that lives.
  bool take_over = false;
  TransportKind transport = TransportKind::kAuto;
  LogLevel log_level = LogLevel::kInfo;
};

using CoordinatorCommand = std::variant<CoordinatorOptions, PrintAndExit>;

// Parses the command line `arguments`, which do not include the program's name. Errors:
// INVALID_ARGUMENT with one line per problem; NOT_FOUND (the job file).
absl::StatusOr<CoordinatorCommand> ParseCoordinatorCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment, FileSystem& files);

// Parses the value of --local: "ps=2,worker=3", or "worker=1" for a strategy without ps. Errors:
// INVALID_ARGUMENT naming the mistake.
absl::StatusOr<LocalTasks> ParseLocalTasks(absl::string_view text);

}  // namespace cohort
