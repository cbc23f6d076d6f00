#pragma once

// Errors with a class. A Status carries a proto::ErrorDetail as its payload: the class of the
// error, and the task from which the error comes (its origin). Transports carry the ErrorDetail
// across calls.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/error.pb.h"

namespace cohort {

absl::Status WithDetail(const absl::Status& status, const proto::ErrorDetail& detail);

// Returns a status with an ErrorDetail of the class `error_class` and without an origin.
absl::Status MakeError(absl::StatusCode code, absl::string_view message,
                       proto::ErrorClass error_class);

// Returns the ErrorDetail of a status, or a detail of ERROR_CLASS_UNKNOWN if the status has none.
proto::ErrorDetail DetailOf(const absl::Status& status);
proto::ErrorClass ClassOf(const absl::Status& status);

// Returns `status` with `origin` as the task from which the error comes, unless its ErrorDetail
// names an origin already. An OK status is returned unchanged.
absl::Status WithOrigin(const absl::Status& status, const proto::TaskRef& origin);

// Returns `status` with a complete ErrorDetail: `otherwise` is its class if it has none, and
// `origin` its origin if it has none. An OK status is returned unchanged.
absl::Status Attributed(const absl::Status& status, proto::ErrorClass otherwise,
                        const proto::TaskRef& origin);

// Returns the failed status of a call to `task` with a complete ErrorDetail, so that the caller can
// pass the error on. An error that the task itself answered keeps its class. An error without a
// class comes from the transport: a task that cannot be reached is lost (PS_LOST, WORKER_LOST), and
// any other error gets the class APPLICATION.
absl::Status AttributedCall(const absl::Status& status, const proto::TaskRef& task);

// Returns true if the transport ended the call without an answer. The error then has the code
// UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED, and no class: only errors that a handler answered
// have a class.
bool FailedOnItsWay(const absl::Status& status);

// Returns a task's name for log and error texts: "worker:1" or "worker:1 (incarnation 77)".
std::string TaskName(const proto::TaskRef& task);

// Returns `task` without its incarnation, for texts in which a restarted process is the same task:
// users do not know incarnations.
proto::TaskRef WithoutIncarnation(proto::TaskRef task);

// MalformedMessage is the error for a message that its receiver cannot read: the message's bytes
// changed on the way, or they belong to another protocol. The connection that brought the message
// ends (renewed_channel.h), and the caller may repeat the call, because a malformed request has had
// no effect.

// Returns INVALID_ARGUMENT of class TRANSIENT, because a message that is sent again may arrive
// intact.
absl::Status MalformedMessage(absl::string_view what);
// Returns whether `status` is a MalformedMessage, or the DATA_LOSS of class TRANSIENT by which a
// receiver reports that a checksum inside a message is wrong.
bool IsMalformed(const absl::Status& status);

}  // namespace cohort
