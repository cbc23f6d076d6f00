#pragma once

// The options of the two daemons that only serve, ps and worker. Each value comes from the first
// source that has it: flag, TF_CONFIG (cluster, task and rpc_layer only), the --config file, the
// default. Everything wrong is found before the daemon listens.

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
  std::string own_address;     // this task's entry in the cluster; port 0 takes any free port
  std::string listen_address;  // what to bind; default: ListenAddressOf(own_address)
  // The file in which a task that has variables keeps the last epoch that it granted.
  std::string grant_file;
  std::string address_file;  // see AnnounceAddress; empty: none
  // The bytes of requests, and of answers to pulls, that a task with variables holds at a time.
  int receive_buffer_mib = 1024;
  int send_buffer_mib = 1024;
  int compute_threads = 0;  // 0: one per processor
  TransportKind transport = TransportKind::kAuto;
  // The directory to which a worker writes what the calls of failed groups did; empty: none.
  std::string flight_directory;
  LogLevel log_level = LogLevel::kInfo;
  // how long open calls may take after a request to stop
  absl::Duration drain_timeout = absl::Seconds(10);
  // Ends the daemon when no coordinator came for so long; zero: never.
  absl::Duration orphan_timeout = absl::ZeroDuration();
};

using RoleCommand = std::variant<RoleOptions, PrintAndExit>;

// Parses `arguments`, which do not include the program's name, and reads the --config file through
// `files`. Errors: INVALID_ARGUMENT with one line per problem, naming flag, variable or file
// (kExitBadConfig).
absl::StatusOr<RoleCommand> ParseRoleCommandLine(Role role,
                                                 const std::vector<std::string>& arguments,
                                                 const Environment& environment, FileSystem& files);

// Returns the options as JSON that --config reads back.
std::string RoleOptionsToJson(const RoleOptions& options);

// Returns the address that others use for a task that is bound to `bound` ("0.0.0.0:43211"): the
// host of its own address with the bound port.
std::string ReachableAddress(const RoleOptions& options, absl::string_view bound);

// Writes ReachableAddress and a newline to options.address_file, all at once; does nothing without
// such a file. The daemon calls it once it listens, so that a reader of the file can connect.
// Errors: those of WriteFileAtomically.
absl::Status AnnounceAddress(FileSystem& files, const RoleOptions& options,
                             absl::string_view bound);

}  // namespace cohort
