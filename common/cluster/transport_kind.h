#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// How a program reaches others (common/wire/auto_transport.h). kAuto: shared memory between
// processes of one host that find each other, their local socket where one of them gives no shared
// memory, gRPC over TCP for all others. kTcp: gRPC alone. kUnix: tensors over the local socket
// alone. kShm: tensors through shared memory alone. With the last two, peers of other hosts are
// refused.
enum class TransportKind { kAuto, kTcp, kUnix, kShm };

// "auto", "tcp", "unix" or "shm".
std::string TransportKindName(TransportKind kind);
// Errors: INVALID_ARGUMENT naming the choices.
absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name);

}  // namespace cohort
