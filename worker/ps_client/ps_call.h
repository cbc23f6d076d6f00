#pragma once

// A call to a parameter server with its repeats. Every call that a worker makes to a server may be
// repeated: Pull and Assign change nothing the second time, and the server recognises a repeated
// Push by the closure's id. A call is repeated after its connection has failed or its answer has
// not arrived. Each repeat waits a little longer, up to a limit, and goes to the server's latest
// address. How long a call is repeated depends on the server's incident (PsLink), not on the
// call: the last repeat starts when the incident is as old as its window, and a call that starts
// later is tried once.
//
// The link to one parameter server, shared by all calls to the server. It knows where the server
// is, and whether the server is in an incident:
//
//   answering --a call fails--> incident --any call is answered, or Attach--> answering
//
// Patience is per incident. Calls to a server in an incident are repeated until the incident is
// older than the window, which is the coordinator's lease. A server that is away for a shorter time
// costs only waiting; a server that is away for longer is reported lost. All calls wait for the
// same window together, and a later incident has a whole new window.
//
// While calls are open, the worker needs the server and watches it (peer_reach.h). When the server
// is reached again, messages sent meanwhile may be lost, so open calls are repeated at once. When
// the server is given up, open calls end.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/task/task_hold.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/error.pb.h"
#include "worker/ps_client/peer_reach.h"

namespace cohort {

// How to reach a server. Each Attach from the coordinator sends the route again, and repeats of
// open calls use the latest route.
struct PsRoute {
  proto::TaskRef task;
  std::string address;
  // Channel to the server, shared: calls under way outlive a change of address.
  std::shared_ptr<Channel> channel;
  absl::Duration window = kDefaultLease;
  bool own = false;  // true if the server is the home in this process
};

// An open call to a server. The link to the server can repeat the call or end it. Thread-safe.
class OpenPsCall {
 public:
  virtual ~OpenPsCall() = default;
  // Starts another attempt of the call, because the present attempt may never be answered.
  virtual void Renew() = 0;
  // Ends the call, because the server has not been heard for a lease.
  virtual void GiveUp() = 0;
};

// The link to one server. Shared by the client and its calls. Thread-safe.
class PsLink : public std::enable_shared_from_this<PsLink> {
 public:
  // Makes a link to the server of `route`. If `reach` is null, the server is not watched.
  PsLink(PsRoute route, std::shared_ptr<PeerReach> reach);

  PsRoute route() const;

  // Registers an open call and returns its number for Leave().
  uint64_t Enter(std::weak_ptr<OpenPsCall> call);
  void Leave(uint64_t call);
  // Returns true if the server has not been heard for a lease.
  bool IsGivenUp() const;
  // Replaces the route and ends an incident, since the coordinator has checked that the server is
  // alive. If the channel changes, calls under way on the old channel are repeated on the new one.
  void Reroute(PsRoute route);

  // Notes that the server has answered a call, perhaps with an error. Ends an incident.
  void OnAnswer();

  // The period from the first failed call to a server until a call is answered.
  struct Incident {
    absl::Time start;    // time when the first call failed
    absl::Time give_up;  // time after which no call is repeated
  };
  // Notes that a call failed in transport at time `now`. Begins an incident unless there is one
  // already.
  Incident OnFailure(absl::Time now);

 private:
  // Watches the server while calls are open. Must not be called under the lock.
  void WatchServer();
  void OnReach(PeerReach::Change change);
  std::vector<std::shared_ptr<OpenPsCall>> OpenCalls() const;

  // Reachability of peers, shared by all links of the worker; may be null.
  const std::shared_ptr<PeerReach> reach_;
  mutable Mutex mutex_;
  PsRoute route_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<OpenPsCall>> calls_ ABSL_GUARDED_BY(mutex_);
  PeerReach::Need need_ ABSL_GUARDED_BY(mutex_);  // watch of the server, held while calls are open
  // The time when the incident started; infinite: there is no incident.
  absl::Time incident_start_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

// The timing of the attempts of a call.
struct RetryPolicy {
  // The time for all attempts of a call together in which their bytes do not move. If the
  // incident's window is longer, the call may take the window and one attempt.
  absl::Duration call_timeout = absl::Seconds(30);
  // The time of one attempt in which its bytes do not move. An attempt whose bytes move, however
  // slow the link is, goes on up to LongestTime (common/wire/moved_bytes.h).
  absl::Duration attempt_timeout = absl::Seconds(10);
  // Time before the first repeat; doubles with each attempt.
  absl::Duration first_backoff = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Milliseconds(500);
};

// The limits that the caller of StartPsCall sets.
struct PsCaller {
  absl::Time deadline = absl::InfiniteFuture();
  // If set, is called before each repeat. An error of `check` ends the call with this error.
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
