#pragma once

// Watches whether this worker reaches the peers that it needs: parameter servers with open calls,
// and the other members of its group. One failed call says little, and an unanswered call says
// nothing for a long time. So a needed peer that has not answered anything for a while ("not
// heard") is probed by GetStatus, on a separate connection that is opened again after each failed
// probe:
//
//   reached --not heard for half a lease--> unreached --not heard for a lease--> given up
//      ^--------------- a probe or a call is answered --------|--------------------|
//
// An unreached peer is probed until it answers, even if the worker no longer needs it. Every change
// is logged, and reported to the coordinator (TaskService::SetUnreached), because the coordinator
// sees only which tasks it reaches itself.

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
#include "common/base/work_gate.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/error.pb.h"

namespace cohort {

// The record of which peers are reached. Thread-safe. Always owned by a shared_ptr; probes and
// watches hold it weakly.
class PeerReach : public std::enable_shared_from_this<PeerReach> {
 public:
  enum class Change { kUnreached, kGivenUp, kReachedAgain };
  // The callback of a watch, called when the state of its peer changes: outside the lock, on a
  // thread of the clock or the transport, or inside Watch() or OnHeard() for another caller. Must
  // not block.
  using Listener = std::function<void(Change)>;
  // Receives all peers that are unreached now, after every change. Must not block.
  using Report = std::function<void(std::vector<proto::TaskRef>)>;

  explicit PeerReach(World world);

  // Sets the receiver of reports. Called before all other methods.
  void SetReport(Report report) { report_ = std::move(report); }
  void SetLease(absl::Duration lease);
  // Ends all checks of peers, and waits for one that runs: the world's transport may be destroyed
  // then. Must not be called by a listener.
  void Stop() { looking_.Close(); }

  // Watches a peer for as long as the returned object lives; `listener` hears of changes. If the
  // peer's address has changed, its state under the old address is forgotten.
  using Need = std::shared_ptr<void>;
  Need Watch(const proto::TaskRef& task, const std::string& address, Listener listener);
  // Notes that `task` has answered a call. Ignored for a task that was never watched.
  void OnHeard(const proto::TaskRef& task);
  // Returns true if the peer has not been heard for a lease while it was watched.
  bool IsGivenUp(const proto::TaskRef& task) const;

 private:
  struct Peer {
    proto::TaskRef task;  // name of the peer, without incarnation
    std::string address;
    std::shared_ptr<Channel> channel;  // channel for probes; null: the next probe opens one
    absl::Time heard;
    bool unreached = false;
    bool given_up = false;
    absl::Time next;  // time of the next check of this peer; infinite: no check is planned
    // Number of the peer's present address. The results of probes to an earlier address are
    // ignored.
    uint64_t life = 0;
    uint64_t last_listener = 0;
    std::map<uint64_t, Listener> listeners;
  };
  // The consequences of a change of one peer's state, made after the lock has been released: calls
  // of listeners, a log entry and a report.
  struct Effects {
    std::vector<std::pair<Listener, Change>> calls;
    // Name of the peer whose state has changed; empty: nothing is logged or reported.
    std::string peer;
    std::string address;
    absl::Duration silence;  // time since the peer was heard; zero: the peer is reached again
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
  Strand strand_;     // strand on which reports are made, in order
  Report report_;     // receiver of reports; constant after SetReport()
  WorkGate looking_;  // for checks, which run on the clock's thread and use the world's transport
  mutable Mutex mutex_;
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  uint64_t lives_ ABSL_GUARDED_BY(mutex_) = 0;
  // All peers that were ever watched, by name.
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
