#pragma once

// A call to a parameter server with its repeats. Every call that a worker makes to a server may be
// repeated: Pull and Assign change nothing the second time, and the server recognises a repeated
// Push by the closure's id. A call is repeated after its connection has failed or its answer has
// not arrived. Each repeat waits a little longer, up to a limit, and goes to the server's latest
// address. How long a call is repeated depends on the server's incident (ps_link.h), not on the
// call: the last repeat starts when the incident is as old as its window, and a call that starts
// later is tried once.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "worker/ps_client/ps_link.h"

namespace cohort {

// The timing of the attempts of a call.
struct RetryPolicy {
  // The time for all attempts of a call together. The call lasts longer if the incident's window is
  // longer.
  absl::Duration call_timeout = absl::Seconds(30);
  absl::Duration attempt_timeout = absl::Seconds(10);
  // Time before the first repeat; doubles with each attempt.
  absl::Duration first_backoff = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Milliseconds(500);
};

// The limits that the caller of StartPsCall sets.
struct PsCaller {
  absl::Time deadline = absl::InfiniteFuture();
  // Called before each repeat, if set. An error ends the call with that error.
  std::function<absl::Status()> check;
};

// Starts a call. `done` runs once, on a thread of the transport or of the clock. Errors:
// UNAVAILABLE or DEADLINE_EXCEEDED of class PS_LOST with the ps as origin for a server that cannot
// be reached; an error that the server sent, with its code and detail, or with the class
// APPLICATION if it has no detail. All these errors name the ps. The only other errors are those of
// PsCaller::check, unchanged.
void StartPsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link,
                 std::string method, Message request, PsCaller caller, Reply done);

}  // namespace cohort
