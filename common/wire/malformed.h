#pragma once

// A message that cannot be read where it came: its bytes changed on the way, or it is of another
// protocol. Its connection ends (renewed_channel.h), and the call may be made again: a request that
// was malformed has done nothing.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cohort {

// INVALID_ARGUMENT of class TRANSIENT: it may come whole when it is sent again.
absl::Status MalformedMessage(absl::string_view what);
// Also for DATA_LOSS of that class: what a receiver says whose own sums differ.
bool IsMalformed(const absl::Status& status);

}  // namespace cohort
