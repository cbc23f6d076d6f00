#pragma once

// The coordinator's options, from its flags, TF_CONFIG and the job file. A flag overrides
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
#include "coordinator/daemon/job_paths.h"
#include "coordinator/job/job_spec.h"

namespace cohort {

// How many tasks of each role the coordinator starts itself.
struct LocalTasks {
  int ps = 0;
  int workers = 0;
};

struct CoordinatorOptions {
  std::string job_file;
  JobSpec job;
  std::optional<LocalTasks> local;  // the local tasks to start; absent: the tasks of TF_CONFIG
  ClusterSpec cluster;              // the cluster of TF_CONFIG; empty with --local
  std::string state_directory;      // where local tasks keep addresses, process ids and logs
  // True: the state directory was made for this start, so the same command would use another one.
  bool state_directory_is_new = false;
  // The time after which a local task without a coordinator ends by itself; zero: never.
  absl::Duration orphan_timeout = absl::Seconds(30);
  // The address at which the coordinator serves operators; empty: operators are not served. And a
  // file to which the coordinator writes this address; empty: no file.
  std::string ctl_address;
  std::string ctl_address_file;
  // True: --ctl_address was given, so the job must not begin if operators cannot be served there.
  bool ctl_required = false;
  // Source of the list of workers (membership_source.h); empty: the cluster's workers.
  std::string membership;
  // Time for the job and its local tasks to end after SIGTERM.
  absl::Duration drain_timeout = absl::Seconds(10);
  // True: the tasks of TF_CONFIG keep running after the job, for the next job.
  bool keep_tasks = false;
  // True: the job takes the tasks of TF_CONFIG even from another job that is still alive.
  bool take_over = false;
  TransportKind transport = TransportKind::kAuto;
  LogLevel log_level = LogLevel::kInfo;
};

// Returns the paths in the options, which must outlive the result.
JobPlaces PlacesOf(const CoordinatorOptions& options);

using CoordinatorCommand = std::variant<CoordinatorOptions, PrintAndExit>;

// Parses the command line `arguments`, which do not include the program's name. Errors:
// INVALID_ARGUMENT with one line per problem; NOT_FOUND (the job file).
absl::StatusOr<CoordinatorCommand> ParseCoordinatorCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment, FileSystem& files);

// Parses the value of --local: "ps=2,worker=3", or "worker=1" for a strategy without ps. Errors:
// INVALID_ARGUMENT naming the mistake.
absl::StatusOr<LocalTasks> ParseLocalTasks(absl::string_view text);

}  // namespace cohort
