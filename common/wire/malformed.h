#pragma once

// The error for a message that its receiver cannot read: its bytes changed on the way, or they
// belong to another protocol. The connection that brought the message ends (renewed_channel.h), and
// the caller may repeat the call: a malformed request has had no effect.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns INVALID_ARGUMENT of class TRANSIENT: a message that is sent again may arrive intact.
absl::Status MalformedMessage(absl::string_view what);
// Returns whether the error is a MalformedMessage, or DATA_LOSS of class TRANSIENT, which a
// receiver answers if a checksum of its own differs.
bool IsMalformed(const absl::Status& status);

}  // namespace cohort
