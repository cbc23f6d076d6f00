#pragma once

// A message that cannot be read where it came: its bytes changed on the way, or it is of another
// protocol. Its connection ends (renewed_channel.h), and the call may be made again: a request that
// was malformed has done nothing.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns INVALID_ARGUMENT of class TRANSIENT: the message may come whole when it is sent again.
absl::Status MalformedMessage(absl::string_view what);
// Returns whether the error is a MalformedMessage, or DATA_LOSS of class TRANSIENT, which a
// receiver answers if its own sums differ.
bool IsMalformed(const absl::Status& status);

}  // namespace cohort
