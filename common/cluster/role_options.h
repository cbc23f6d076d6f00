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
  // Of a task that has variables: where it keeps the last epoch that it granted.
  std::string grant_file;
  std::string address_file;  // see AnnounceAddress; empty: none
  // Of the same: how many bytes of requests, and of answers to pulls, it holds at a time.
  int receive_buffer_mib = 1024;
  int send_buffer_mib = 1024;
  int compute_threads = 0;  // as given; 0 means one per processor
  TransportKind transport = TransportKind::kAuto;
  // Of a worker: for files with what the calls of groups that have failed did; empty: none.
  std::string flight_directory;
  LogLevel log_level = LogLevel::kInfo;
  absl::Duration drain_timeout = absl::Seconds(10);  // for open calls, once asked to stop
  // Ends the daemon when no coordinator came for so long; zero: never.
  absl::Duration orphan_timeout = absl::ZeroDuration();
};

using RoleCommand = std::variant<RoleOptions, PrintAndExit>;

// `arguments` without the program's name. Reads the --config file through `files`.
// Errors: INVALID_ARGUMENT with one line per problem, naming flag, variable or file
// (kExitBadConfig).
absl::StatusOr<RoleCommand> ParseRoleCommandLine(Role role,
                                                 const std::vector<std::string>& arguments,
                                                 const Environment& environment, FileSystem& files);

// The options as JSON that --config reads back.
std::string RoleOptionsToJson(const RoleOptions& options);

// The address that others use for a task that is bound to `bound` ("0.0.0.0:43211"): the host of
// its own address with the bound port.
std::string ReachableAddress(const RoleOptions& options, absl::string_view bound);

// Writes ReachableAddress and a newline to options.address_file, all at once; nothing without one.
// To be called once the daemon listens, so that who reads the file can connect.
// Errors: those of WriteFileAtomically.
absl::Status AnnounceAddress(FileSystem& files, const RoleOptions& options,
                             absl::string_view bound);

}  // namespace cohort
