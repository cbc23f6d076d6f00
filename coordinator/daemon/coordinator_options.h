#pragma once

// The options of the coordinator's daemon, from command-line flags, TF_CONFIG and the job file. A
// flag overrides TF_CONFIG, TF_CONFIG overrides the job file, and the job file overrides defaults.
// All mistakes are found before any task is started.

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

// The number of tasks that the coordinator starts itself, by role.
struct LocalTasks {
  int ps = 0;
  int workers = 0;
};

struct CoordinatorOptions {
  std::string job_file;
  JobSpec job;
  // The tasks that the coordinator starts itself. If absent, the tasks are those of `cluster`.
  std::optional<LocalTasks> local;
  // The cluster of TF_CONFIG. Empty if `local` is set.
  ClusterSpec cluster;
  // The directory in which local tasks keep addresses, process ids and logs.
  std::string state_directory;
  // True if the state directory was made for this start. The same command would then make another
  // one next time.
  bool state_directory_is_new = false;
  // How long a local task lives without a coordinator. If zero, it never ends by itself.
  absl::Duration orphan_timeout = absl::Seconds(30);
  // The address at which the coordinator serves operators, and a file to which it writes this
  // address. If an address is empty, operators are not served; if a file name is empty, no file is
  // written.
  std::string ctl_address;
  std::string ctl_address_file;
  // True if the user has given --ctl_address. The job then must not begin if operators cannot be
  // served there.
  bool ctl_required = false;
  // The list of workers to follow (membership_source.h). If empty, the workers are those of the
  // cluster.
  std::string membership;
  // The time that the job and its local tasks have to end after SIGTERM.
  absl::Duration drain_timeout = absl::Seconds(10);
  // If true, the tasks of TF_CONFIG keep running after the job, for the next job.
  bool keep_tasks = false;
  // If true, the job takes over the tasks of TF_CONFIG even from another job that is still alive.
  bool take_over = false;
  TransportKind transport = TransportKind::kAuto;
  LogLevel log_level = LogLevel::kInfo;
};

// Returns the paths that the options name. `options` must outlive the result.
JobPlaces PlacesOf(const CoordinatorOptions& options);

using CoordinatorCommand = std::variant<CoordinatorOptions, PrintAndExit>;

// Parses the command line: `arguments` without the name of the executable. Errors: INVALID_ARGUMENT
// with one line per problem, such as a job file that cannot be read; FAILED_PRECONDITION if no
// state directory can be made; with --print_plan, the errors of planning.
absl::StatusOr<CoordinatorCommand> ParseCoordinatorCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment, FileSystem& files);

// Parses the value of the flag --local, such as "ps=2,worker=3", or "worker=1" for a strategy
// without ps. Errors: INVALID_ARGUMENT naming the mistake.
absl::StatusOr<LocalTasks> ParseLocalTasks(absl::string_view text);

}  // namespace cohort
