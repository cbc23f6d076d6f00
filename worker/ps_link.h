#pragma once

// One parameter server as this worker reaches it, shared by all calls to it: where it is, and
// whether it is in an incident:
//
//   answering --a call fails--> incident --any call is answered, or Attach--> answering
//
// Patience is per incident. Calls to a server in an incident are repeated until the incident is
// older than the window, which is the coordinator's lease: what is away for a shorter time costs
// waiting alone, and what is away for longer is reported lost. Many calls wait for one window
// together, and a later incident has a whole window of its own.

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/open_calls.h"
#include "common/wire/task_hold.h"
#include "common/wire/transport.h"
#include "proto/error.pb.h"

namespace cohort {

// Where a server is. Attach says it anew, and calls that are being repeated follow.
struct PsRoute {
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // shared: calls under way outlive a change of address
  absl::Duration window = kDefaultLease;
  // Those that are under way on the channel; of PsLink. Shared with them.
  std::shared_ptr<OpenCalls> calls = std::make_shared<OpenCalls>();
};

// Thread-safe. Shared by the client and its calls.
class PsLink {
 public:
  explicit PsLink(PsRoute route);

  PsRoute route() const;
  // What failed before is over: the coordinator has looked at the server since. With another
  // channel the calls under way on the one before are cancelled, and repeated on the new one.
  void Reroute(PsRoute route);

  // The server answered, if only with an error: an incident ends.
  void OnAnswer();

  struct Incident {
    absl::Time start;    // when the first call failed
    absl::Time give_up;  // no call is repeated after this
  };
  // A call failed on its way, now: an incident begins, unless there is one.
  Incident OnFailure(absl::Time now);

 private:
  mutable Mutex mutex_;
  PsRoute route_ ABSL_GUARDED_BY(mutex_);
  absl::Time incident_start_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // no incident
};

}  // namespace cohort
