#pragma once

// Typed failures. A Status carries a proto::ErrorDetail as payload, and transports carry the detail
// across calls.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/error.pb.h"

namespace cohort {

absl::Status WithDetail(const absl::Status& status, const proto::ErrorDetail& detail);

// Makes a status with an ErrorDetail of class `error_class` and without an origin.
absl::Status MakeError(absl::StatusCode code, absl::string_view message,
                       proto::ErrorClass error_class);

// Returns the ErrorDetail of a status, or a detail of ERROR_CLASS_UNKNOWN if the status has none.
proto::ErrorDetail DetailOf(const absl::Status& status);
proto::ErrorClass ClassOf(const absl::Status& status);

// Sets the task of origin in the status's ErrorDetail if the detail has none. An OK status is
// returned unchanged.
absl::Status WithOrigin(const absl::Status& status, const proto::TaskRef& origin);

// Completes the status's ErrorDetail: `otherwise` replaces a missing class, `origin` a missing task
// of origin. An OK status is returned unchanged.
absl::Status Attributed(const absl::Status& status, proto::ErrorClass otherwise,
                        const proto::TaskRef& origin);

// Returns the failure of a call to `task` with a complete ErrorDetail, so that the caller can pass
// the failure on. An error that the task itself answered already has a class. An error without a
// class comes from the transport: a task that cannot be reached is lost (PS_LOST, WORKER_LOST), and
// any other error gets class APPLICATION.
absl::Status AttributedCall(const absl::Status& status, const proto::TaskRef& task);

// Returns whether the transport ended the call without an answer. Errors of the transport itself
// have no class, unlike those of a handler.
bool FailedOnItsWay(const absl::Status& status);

// Returns a task's name for log and error texts: "worker:1" or "worker:1 (incarnation 77)".
std::string TaskName(const proto::TaskRef& task);

// Returns the task without its incarnation: a process that replaces another one has the same task
// name, and users do not know incarnations.
proto::TaskRef WithoutIncarnation(proto::TaskRef task);

// MalformedMessage is the error for a message that its receiver cannot read: its bytes changed on
// the way, or they belong to another protocol. The connection that brought the message ends
// (renewed_channel.h), and the caller may repeat the call: a malformed request has had no effect.

// Returns INVALID_ARGUMENT of class TRANSIENT: a message that is sent again may arrive intact.
absl::Status MalformedMessage(absl::string_view what);
// Returns whether the error is a MalformedMessage, or the DATA_LOSS of class TRANSIENT by which a
// receiver reports that a checksum in the message's content differs.
bool IsMalformed(const absl::Status& status);

}  // namespace cohort
