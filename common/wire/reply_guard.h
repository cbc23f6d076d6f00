#pragma once

// The one place that keeps the promise of transport.h: a reply is sent once, and dropping it unsent
// answers INTERNAL. Every transport hands its handlers a guarded reply.

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns a reply that passes its result to `target`, or INTERNAL naming `method` if it is
// destroyed uncalled. A second call of the reply does nothing.
Reply GuardReply(absl::string_view method, Reply target);

}  // namespace cohort
