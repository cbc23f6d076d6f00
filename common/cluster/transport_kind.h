#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// How a program reaches others. kAuto: gRPC, and shared memory between processes of one host that
// find each other (common/wire/auto_transport.h). kTcp: gRPC alone.
enum class TransportKind { kAuto, kTcp };

// "auto" or "tcp".
std::string TransportKindName(TransportKind kind);
// Errors: INVALID_ARGUMENT naming the choices.
absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name);

}  // namespace cohort
