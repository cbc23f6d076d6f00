#pragma once

// Keeps the promise of transport.h about replies, for all transports: a reply is sent once, and a
// reply that is dropped unsent answers INTERNAL. Every transport gives its handlers a guarded
// reply.

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns a reply that passes its result to `target`, or passes INTERNAL naming `method` if the
// reply is destroyed uncalled. A second call of the reply does nothing.
Reply GuardReply(absl::string_view method, Reply target);

}  // namespace cohort
