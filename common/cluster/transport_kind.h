#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// The ways in which a program's tensors reach others (common/wire/route/auto_transport.h):
//
//   kAuto  shared memory between processes of one host that find each other, their local socket if
//          one of them has no shared memory, plain TCP to all others, gRPC if the other end does
//          not take TCP
//   kTcp   plain TCP, and gRPC if the other end does not take it
//   kGrpc  gRPC alone
//   kUnix  the local socket alone; peers on other hosts are refused
//   kShm   shared memory alone; peers on other hosts are refused
enum class TransportKind { kAuto, kTcp, kGrpc, kUnix, kShm };

// The text for --transport in every daemon's --help.
inline constexpr char kTransportHelp[] =
    "How tensors travel. auto: shared memory between processes of one host, else their local "
    "socket, else TCP; tcp: TCP, beside gRPC on its port; grpc: gRPC alone; unix, shm: that alone; "
    "default auto";

// Returns "auto", "tcp", "grpc", "unix" or "shm".
std::string TransportKindName(TransportKind kind);
// Errors: INVALID_ARGUMENT naming the choices.
absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name);

}  // namespace cohort
