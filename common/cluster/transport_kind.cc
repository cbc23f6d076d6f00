#include "common/cluster/transport_kind.h"

#include "absl/strings/str_cat.h"

namespace cohort {

std::string TransportKindName(TransportKind kind) {
  switch (kind) {
    case TransportKind::kAuto:
      return "auto";
    case TransportKind::kTcp:
      return "tcp";
    case TransportKind::kGrpc:
      return "grpc";
    case TransportKind::kUnix:
      return "unix";
    case TransportKind::kShm:
      return "shm";
  }
  return "";
}

absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name) {
  for (const TransportKind kind : {TransportKind::kAuto, TransportKind::kTcp, TransportKind::kGrpc,
                                   TransportKind::kUnix, TransportKind::kShm}) {
    if (name == TransportKindName(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown transport '", name, "'; use auto, tcp, grpc, unix or shm"));
}

}  // namespace cohort
