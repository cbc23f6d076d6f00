#pragma once

// Whom this worker reaches, of the peers that it needs: parameter servers with calls under way, and
// the other members of its group. A failed call alone says little, and an unanswered one nothing
// for a long time, so a needed peer that has not been heard lately is probed, on a connection of
// its own, which is opened anew after each probe that failed:
//
//   reached --not heard for half a lease--> unreached --not heard for a lease--> given up
//      ^--------------- a probe or a call is answered --------|--------------------|
//
// A peer that was silent lately is probed until it is heard, needed or not. The coordinator, which
// sees only whom it reaches itself, is told of every change (TaskService::SetUnreached), and each
// change is logged.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/error.pb.h"

namespace cohort {

// Thread-safe. Always owned by a shared_ptr: probes and watches hold it weakly.
class PeerReach : public std::enable_shared_from_this<PeerReach> {
 public:
  enum class Change { kUnreached, kGivenUp, kReachedAgain };
  // Runs outside the lock, on a thread of the clock or of the transport; must not block.
  using Listener = std::function<void(Change)>;
  // Reports all peers that are not reached now, in order, under the rules of the listener.
  using Report = std::function<void(std::vector<proto::TaskRef>)>;

  explicit PeerReach(World world);

  // Sets the receiver of reports. Called before everything else.
  void SetReport(Report report) { report_ = std::move(report); }
  void SetLease(absl::Duration lease);

  // The peer is needed for as long as the result lives. What a peer was known by under another
  // address is forgotten.
  using Need = std::shared_ptr<void>;
  Need Watch(const proto::TaskRef& task, const std::string& address, Listener listener);
  // Notes that the peer has answered a call.
  void OnHeard(const proto::TaskRef& task);
  bool IsGivenUp(const proto::TaskRef& task) const;

 private:
  struct Peer {
    proto::TaskRef task;  // without incarnation
    std::string address;
    std::shared_ptr<Channel> channel;  // for probes; null: the next one opens it
    absl::Time heard;
    bool unreached = false;
    bool given_up = false;
    absl::Time next;    // when to look at it again; infinite: not at all
    uint64_t life = 0;  // counts addresses: what came from another one says nothing
    uint64_t last_listener = 0;
    std::map<uint64_t, Listener> listeners;
  };
  // The work to do once the lock is released.
  struct Effects {
    std::vector<std::pair<Listener, Change>> told;
    std::string peer;  // empty: there is nothing to report
    std::string address;
    absl::Duration silence;  // zero: it is reached again
  };

  void Look(const std::string& name, uint64_t life);
  void LookAtLocked(const std::string& name, Peer& peer, absl::Time when)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Probe(const std::string& name, uint64_t life);
  void OnProbed(const std::string& name, uint64_t life, bool heard);
  void HeardLocked(Peer& peer, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void TellLocked(Peer& peer, Change change, Effects& effects);
  void Forget(const std::string& name, uint64_t listener);
  void Run(Effects& effects);
  void ReportAll();

  const World world_;
  Strand strand_;  // for reports, so that a later one says what came later
  Report report_;  // constant after SetReport
  mutable Mutex mutex_;
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  uint64_t lives_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);  // keyed by name
};

}  // namespace cohort
