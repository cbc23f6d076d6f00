#pragma once

// Typed failures: a Status carries a proto::ErrorDetail as payload, and transports carry it across
// calls.

#include <string>

#include "absl/status/status.h"
#include "proto/error.pb.h"

namespace cohort {

absl::Status WithDetail(const absl::Status& status, const proto::ErrorDetail& detail);

// Makes a status of class `error_class` with no origin yet.
absl::Status MakeError(absl::StatusCode code, absl::string_view message,
                       proto::ErrorClass error_class);

// Returns the detail, or one of ERROR_CLASS_UNKNOWN if the status has none.
proto::ErrorDetail DetailOf(const absl::Status& status);
proto::ErrorClass ClassOf(const absl::Status& status);

// Fills the origin if the status has none yet. Ok stays ok.
absl::Status WithOrigin(const absl::Status& status, const proto::TaskRef& origin);

// Fills what the detail leaves open: class `otherwise`, task `origin`. Ok stays ok.
absl::Status Attributed(const absl::Status& status, proto::ErrorClass otherwise,
                        const proto::TaskRef& origin);

// Returns the failure of a call to `task` in the form in which its caller hands it on. A task's own
// answer has a class. An error without a class comes from the transport: a task that cannot be
// reached is lost (PS_LOST, WORKER_LOST), anything else is of class APPLICATION.
absl::Status AttributedCall(const absl::Status& status, const proto::TaskRef& task);

// Returns "worker:1" or "worker:1 (incarnation 77)".
std::string TaskName(const proto::TaskRef& task);

}  // namespace cohort
