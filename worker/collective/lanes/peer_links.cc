#include "worker/collective/lanes/peer_links.h"

#include <algorithm>
#include <tuple>

#include "common/wire/error_detail.h"

namespace cohort {

// Causes that are otherwise equal are ordered by their messages, so that all ranks order causes
// alike.
bool AbortCause::operator<(const AbortCause& other) const {
  return std::tuple(kind, sequence, reporter, status.message()) <
         std::tuple(other.kind, other.sequence, other.reporter, other.status.message());
}

proto::GroupAbortCause ToProto(const AbortCause& cause) {
  proto::GroupAbortCause message;
  message.set_kind(static_cast<proto::GroupAbortCause::Kind>(cause.kind));
  message.set_sequence(cause.sequence);
  message.set_reporter(static_cast<uint32_t>(cause.reporter));
  message.set_code(static_cast<int32_t>(cause.status.code()));
  message.set_message(std::string(cause.status.message()));
  // A status without an error class has no ErrorDetail to send.
  if (ClassOf(cause.status) != proto::ERROR_CLASS_UNKNOWN) {
    *message.mutable_detail() = DetailOf(cause.status);
  }
  return message;
}

AbortCause FromProto(const proto::GroupAbortCause& message) {
  AbortCause cause;
  // Another process sent these values, so they are limited to the known kinds and error codes (1 to
  // 16).
  cause.kind = static_cast<AbortCause::Kind>(std::clamp<int>(message.kind(), 0, 2));
  cause.sequence = message.sequence();
  cause.reporter = static_cast<int>(message.reporter());
  const bool known = message.code() > 0 && message.code() <= 16;
  const auto code =
      known ? static_cast<absl::StatusCode>(message.code()) : absl::StatusCode::kInternal;
  cause.status = absl::Status(code, message.message());
  if (message.has_detail()) cause.status = WithDetail(cause.status, message.detail());
  return cause;
}

}  // namespace cohort
