#pragma once

// A call to a parameter server (or to a worker that is a home of variables; "server" below), with
// its repeats. Every call that a worker makes to a server may be repeated: Pull and Assign change
// nothing the second time, and the server recognises a repeated Push by the closure's id. A call is
// repeated when its connection has failed or its answer has not arrived in time. Each repeat waits
// longer than the one before, up to a limit, and goes to the server's latest address. How long a
// call is repeated depends on the server's incident (PsLink) and not on the call: the last repeat
// starts when the incident is as old as its window, and a call that starts later is tried once.
//
// A link to a server is shared by all calls to the server. It knows where the server is, and
// whether the server is in an incident:
//
//   answering --a call fails--> incident --any call is answered, or Attach--> answering
//
// All calls to a server in an incident are repeated until the incident is older than its window,
// which is the coordinator's lease. A server that is away for a shorter time costs only waiting; a
// server that is away for longer is reported lost. A later incident has a whole window again.
//
// While calls are open, the worker watches the server (peer_reach.h). When the server is reached
// again after a silence, messages may have been lost, so open calls are repeated at once. When the
// server is given up, open calls end.

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

// The way to reach a server. Each Attach of the coordinator gives the route again, and repeats of
// open calls take the latest route.
struct PsRoute {
  proto::TaskRef task;
  std::string address;
  // Channel to the server; shared, because calls under way outlive a change of the address.
  std::shared_ptr<Channel> channel;
  absl::Duration window = kDefaultLease;
  bool own = false;  // true if the server is the home of variables in this process
};

// An open call, as its PsLink sees it. Thread-safe.
class OpenPsCall {
 public:
  virtual ~OpenPsCall() = default;
  // Starts another attempt of the call, because the present attempt may never be answered. Does
  // nothing if no attempt is under way.
  virtual void Renew() = 0;
  // Ends the call with UNAVAILABLE, because the server has not been heard for a lease.
  virtual void GiveUp() = 0;
};

// The link to one server. Shared by the PsClient and its calls. Thread-safe.
class PsLink : public std::enable_shared_from_this<PsLink> {
 public:
  // Makes a link to the server of `route`. `reach` watches the server while calls are open; if it
  // is null, the server is not watched.
  PsLink(PsRoute route, std::shared_ptr<PeerReach> reach);

  PsRoute route() const;

  // Registers an open call, and returns the number by which Leave() ends the registration.
  uint64_t Enter(std::weak_ptr<OpenPsCall> call);
  void Leave(uint64_t call);
  // Returns true if the server has not been heard for a lease while it was watched.
  bool IsGivenUp() const;
  // Replaces the route and ends an incident, because the coordinator has checked that the server is
  // alive. If the channel is another one, calls under way on the old channel are repeated on the
  // new one.
  void Reroute(PsRoute route);

  // Notes that the server has answered a call, perhaps with an error, which ends an incident.
  void OnAnswer();

  // The time from the first failed call to a server until any call is answered.
  struct Incident {
    absl::Time start;    // time when the first call failed
    absl::Time give_up;  // time at which the last repeat of any call starts
  };
  // Notes that a call failed on its way at time `now`, which begins an incident unless there is
  // one. Returns the incident.
  Incident OnFailure(absl::Time now);

 private:
  // Watches the server for as long as calls are open. Called outside the lock.
  void WatchServer();
  void OnReach(PeerReach::Change change);
  std::vector<std::shared_ptr<OpenPsCall>> OpenCalls() const;

  // The record of which peers are reached; shared by all links. Null: the server is not watched.
  const std::shared_ptr<PeerReach> reach_;
  mutable Mutex mutex_;
  PsRoute route_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<OpenPsCall>> calls_ ABSL_GUARDED_BY(mutex_);
  // The watch of the server, held while calls are open.
  PeerReach::Need need_ ABSL_GUARDED_BY(mutex_);
  // Start of the present incident; infinite: there is none.
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
  // Time before the first repeat; doubles with each repeat, up to backoff_max.
  absl::Duration first_backoff = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Milliseconds(500);
};

// The conditions under which a call may be repeated, set by the caller of StartPsCall().
struct PsCaller {
  absl::Time deadline = absl::InfiniteFuture();
  // Called before each repeat; may be empty. An error ends the call with that error.
  std::function<absl::Status()> check;
};

// Starts a call and repeats it as described at the top of this file. `done` runs once, on a thread
// of the transport, the clock or the executor. Errors: UNAVAILABLE or DEADLINE_EXCEEDED of class
// PS_LOST for a server that cannot be reached, with the server as origin; an error that the server
// sent, with its own code and detail, or with class APPLICATION if it has no class. All these
// errors name the server. An error of PsCaller::check is passed on unchanged.
void StartPsCall(World world, const RetryPolicy& policy, std::shared_ptr<PsLink> link,
                 std::string method, Message request, PsCaller caller, Reply done);

}  // namespace cohort
