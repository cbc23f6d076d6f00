#pragma once

// The options of the daemons ps and worker, which only serve. Each option is taken from the first
// source that has a value: the flag, TF_CONFIG (only cluster, task and rpc_layer), the --config
// file, the default. All wrong options are reported before the daemon listens.

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

namespace cohort {

struct RoleOptions {
  TaskId task;
  ClusterSpec cluster;
  std::string own_address;     // this task's address in the cluster; port 0 means any free port
  std::string listen_address;  // the address to bind; default: ListenAddressOf(own_address)
  // The file in which a task that holds variables keeps the last epoch that it granted to a
  // coordinator; empty for no file.
  std::string grant_file;
  std::string address_file;  // the file to which AnnounceAddress writes; empty for no file
  // Limits in MiB for a task that holds variables: on the requests, and on the answers to pulls,
  // that the task has in memory at one time.
  int receive_buffer_mib = 1024;
  int send_buffer_mib = 1024;
  int compute_threads = 0;  // number of threads that compute; 0 means one per processor
  TransportKind transport = TransportKind::kAuto;
  // The directory to which a worker writes files about the collective calls of failed groups; empty
  // for no files.
  std::string flight_directory;
  LogLevel log_level = LogLevel::kInfo;
  // How long open calls may take after a request to stop the daemon.
  absl::Duration drain_timeout = absl::Seconds(10);
  // How long the daemon waits for a coordinator before the daemon exits; zero means for ever.
  absl::Duration orphan_timeout = absl::ZeroDuration();
};

using RoleCommand = std::variant<RoleOptions, PrintAndExit>;

// Parses `arguments`, which must not include the name of the executable, and reads the --config
// file through `files`. Errors: INVALID_ARGUMENT with one line for each problem, which names the
// flag, variable or file (exit code kExitBadConfig).
absl::StatusOr<RoleCommand> ParseRoleCommandLine(Role role,
                                                 const std::vector<std::string>& arguments,
                                                 const Environment& environment, FileSystem& files);

// Returns the options as JSON text that --config accepts.
std::string RoleOptionsToJson(const RoleOptions& options);

// Returns the address at which other tasks reach a task that is bound to `bound` (such as
// "0.0.0.0:43211"): the host of the task's own address with the port of `bound`.
std::string ReachableAddress(const RoleOptions& options, absl::string_view bound);

// Writes ReachableAddress and a newline to the file options.address_file in one step; does nothing
// if the option is empty. The daemon calls this function when it already listens, so that a reader
// of the file can connect. Errors: the errors of WriteFileAtomically.
absl::Status AnnounceAddress(FileSystem& files, const RoleOptions& options,
                             absl::string_view bound);

}  // namespace cohort
