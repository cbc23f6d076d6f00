#pragma once

// A call to a parameter server with its repeats. Every call that a worker makes there may be
// repeated: Pull and Assign change nothing the second time, and a repeated Push is told apart by
// the closure's id. A repeat follows a connection that failed or an answer that did not come; it
// waits a little longer each time, up to a limit, and goes where the server is by then. How long a
// call is repeated depends on the server's incident (ps_link.h), not on the call: the last repeat
// starts when the incident is as old as its window, and a call that starts later is tried once.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "worker/ps_client/ps_link.h"

namespace cohort {

struct RetryPolicy {
  // The time for all attempts together; a longer window is waited for nevertheless.
  absl::Duration call_timeout = absl::Seconds(30);
  absl::Duration attempt_timeout = absl::Seconds(10);
  absl::Duration first_backoff = absl::Milliseconds(20);  // doubles from attempt to attempt
  absl::Duration backoff_max = absl::Milliseconds(500);
};

// The caller's limits: until when it waits.
struct PsCaller {
  absl::Time deadline = absl::InfiniteFuture();
  // Checked before each repeat if it is set: an error ends the call with that error.
  std::function<absl::Status()> check;
};

// Starts a call. `done` runs once, on a thread of the transport or of the clock. Errors: a server
// that cannot be reached: UNAVAILABLE or DEADLINE_EXCEEDED of class PS_LOST with the ps as origin;
// an answered error keeps its code and detail, or gets the class APPLICATION without detail. All
// name the ps. Besides these only the errors of PsCaller::check, as they are.
void StartPsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link,
                 std::string method, Message request, PsCaller caller, Reply done);

}  // namespace cohort
