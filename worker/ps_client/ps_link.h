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
//
// While calls are open the server is a peer that this worker needs (peer_reach.h). When it is
// reached again after it was not, what was sent meanwhile may be lost: open calls are repeated at
// once. When it is given up they end.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/task/task_hold.h"
#include "common/wire/transport.h"
#include "proto/error.pb.h"
#include "worker/ps_client/peer_reach.h"

namespace cohort {

// The place of a server. Attach says it anew, and calls that are being repeated follow.
struct PsRoute {
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // shared: calls under way outlive a change of address
  absl::Duration window = kDefaultLease;
  bool own = false;  // it is in this process
};

// A call of which a link tells. Thread-safe.
class OpenPsCall {
 public:
  virtual ~OpenPsCall() = default;
  // Makes another attempt: the one under way may never be answered.
  virtual void Renew() = 0;
  // Ends the call: the server has not been heard for a lease.
  virtual void GiveUp() = 0;
};

// Thread-safe. Shared by the client and its calls.
class PsLink : public std::enable_shared_from_this<PsLink> {
 public:
  // Makes a link; nobody watches the server if `reach` is null.
  PsLink(PsRoute route, std::shared_ptr<PeerReach> reach);

  PsRoute route() const;

  // Opens a call, until Leave.
  uint64_t Enter(std::weak_ptr<OpenPsCall> call);
  void Leave(uint64_t call);
  // Returns whether the server has not been heard for a lease.
  bool IsGivenUp() const;
  // Ends an incident: the coordinator has looked at the server since. With another channel the
  // calls under way on the one before are repeated on the new one.
  void Reroute(PsRoute route);

  // Notes that the server answered, if only with an error: an incident ends.
  void OnAnswer();

  struct Incident {
    absl::Time start;    // when the first call failed
    absl::Time give_up;  // no call is repeated after this
  };
  // Notes that a call failed on its way, now: an incident begins, unless there is one.
  Incident OnFailure(absl::Time now);

 private:
  // Watches the server before `need_` is taken for open calls. Not called under the lock.
  void WatchServer();
  void OnReach(PeerReach::Change change);
  std::vector<std::shared_ptr<OpenPsCall>> OpenCalls() const;

  const std::shared_ptr<PeerReach> reach_;  // shared by the links of the worker; may be null
  mutable Mutex mutex_;
  PsRoute route_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<OpenPsCall>> calls_ ABSL_GUARDED_BY(mutex_);
  PeerReach::Need need_ ABSL_GUARDED_BY(mutex_);  // held while calls are open
  absl::Time incident_start_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // no incident
};

}  // namespace cohort
