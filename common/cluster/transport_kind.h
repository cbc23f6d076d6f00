#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// How the tensors of a program reach others (common/wire/route/auto_transport.h). kAuto: shared
// memory between processes of one host that find each other, their local socket where one has no
// shared memory, plain TCP to all others, gRPC where the other end does not take that. kTcp: the
// last two alone. kGrpc: gRPC alone. kUnix: the local socket alone. kShm: shared memory alone. With
// the last two, peers of other hosts are refused.
enum class TransportKind { kAuto, kTcp, kGrpc, kUnix, kShm };

// What --help of every daemon says of --transport.
inline constexpr char kTransportHelp[] =
    "How tensors travel. auto: shared memory between processes of one host, else their local "
    "socket, else TCP; tcp: TCP, beside gRPC on its port; grpc: gRPC alone; unix, shm: that alone; "
    "default auto";

// "auto", "tcp", "grpc", "unix" or "shm".
std::string TransportKindName(TransportKind kind);
// Errors: INVALID_ARGUMENT naming the choices.
absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name);

}  // namespace cohort
