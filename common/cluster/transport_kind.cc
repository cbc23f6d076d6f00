#include "common/cluster/transport_kind.h"

#include "absl/strings/str_cat.h"

namespace cohort {

std::string TransportKindName(TransportKind kind) {
  return kind == TransportKind::kTcp ? "tcp" : "auto";
}

absl::StatusOr<TransportKind> TransportKindFromName(absl::string_view name) {
  for (const TransportKind kind : {TransportKind::kAuto, TransportKind::kTcp}) {
    if (name == TransportKindName(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown transport '", name, "'; use auto or tcp"));
}

}  // namespace cohort
