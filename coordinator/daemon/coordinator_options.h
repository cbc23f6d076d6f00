#pragma once

// The command line of the coordinator: flags, TF_CONFIG, the job file. Flags win over TF_CONFIG,
// TF_CONFIG over the job file, the job file over defaults. Everything wrong is found before
// anything is started.

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

// The tasks that the coordinator starts itself.
struct LocalTasks {
  int ps = 0;
  int workers = 0;
};

struct CoordinatorOptions {
  std::string job_file;
  JobSpec job;
  std::optional<LocalTasks> local;  // absent: the cluster is TF_CONFIG's
  ClusterSpec cluster;              // from TF_CONFIG; empty with --local
  std::string state_directory;      // for local tasks: addresses, process ids and logs
  absl::Duration orphan_timeout = absl::Seconds(30);  // for local tasks; zero: never
  // The address for operators, and a file that gets the address. Empty: none.
  std::string ctl_address;
  std::string ctl_address_file;
  bool ctl_required = false;  // --ctl_address was given: without it the job does not begin
  std::string membership;     // membership_source.h; empty: the workers are the cluster's
  absl::Duration drain_timeout = absl::Seconds(10);  // after SIGTERM
  bool keep_tasks = false;  // leave TF_CONFIG's tasks running for the next job
  bool take_over = false;   // take TF_CONFIG's tasks from another job that lives
  TransportKind transport = TransportKind::kAuto;
  LogLevel log_level = LogLevel::kInfo;
};

using CoordinatorCommand = std::variant<CoordinatorOptions, PrintAndExit>;

// Parses `arguments`, which do not include the program's name. Errors: INVALID_ARGUMENT with one
// line per problem; NOT_FOUND (the job file).
absl::StatusOr<CoordinatorCommand> ParseCoordinatorCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment, FileSystem& files);

// Parses "ps=2,worker=3", or "worker=1" for a strategy without ps. Errors: INVALID_ARGUMENT naming
// what is wrong.
absl::StatusOr<LocalTasks> ParseLocalTasks(absl::string_view text);

}  // namespace cohort
