#pragma once

// The values of the option --transport, which all daemons have.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// The ways in which a process's tensors travel to other tasks (common/wire/route/auto_transport.h):
//
//   kAuto  shared memory between processes of one host that find each other; the host's Unix socket
//          if one of the two processes has no shared memory; plain TCP to all other hosts; gRPC if
//          the other end does not accept TCP
//   kTcp   plain TCP, and gRPC if the other end does not accept TCP
//   kGrpc  only gRPC
//   kUnix  only the host's Unix socket; tasks on other hosts are refused
//   kShm   only shared memory; tasks on other hosts are refused
enum class TransportKind { kAuto, kTcp, kGrpc, kUnix, kShm };

// The help text of --transport, which is the same for every daemon.
inline constexpr char kTransportHelp[] =
    "How tensors travel. auto: shared memory between processes of one host, else their local "
    "socket, else TCP; tcp: TCP, beside gRPC on its port; grpc: gRPC alone; unix, shm: that alone; "
    "default auto";

// Returns the name of a transport: "auto", "tcp", "grpc", "unix" or "shm".
std::string TransportKindName(TransportKind kind);
// Returns the transport with the given name. Errors: INVALID_ARGUMENT that lists the known names.
absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name);

}  // namespace cohort
