#include "worker/ps_client/peer_reach.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/task/task_hold.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "proto/task.pb.h"

namespace cohort {

namespace {

constexpr char kGetStatus[] = "/cohort.proto.TaskService/GetStatus";
// Fractions of the lease: the time between two probes of a peer, the timeout of a probe, and the
// silence after which a peer is unreached. The rest of the lease is left to the coordinator, which
// decides what to do about the peer.
constexpr double kProbePart = 0.2;
constexpr double kProbeTimeoutPart = 0.5;
constexpr double kUnreachedPart = 0.5;

std::string NameOf(const proto::TaskRef& task) { return TaskName(WithoutIncarnation(task)); }

}  // namespace

PeerReach::PeerReach(World world) : world_(world), strand_(world.executor), lease_(kDefaultLease) {}

void PeerReach::SetLease(absl::Duration lease) {
  MutexLock lock(mutex_);
  lease_ = lease;
}

PeerReach::Need PeerReach::Watch(const proto::TaskRef& task, const std::string& address,
                                 Listener listener) {
  const std::string name = NameOf(task);
  uint64_t id = 0;
  Effects effects;
  {
    MutexLock lock(mutex_);
    Peer& peer = peers_[name];
    // A peer at another address is another process, so its state is forgotten.
    if (peer.address != address) {
      if (peer.unreached) HeardLocked(peer, effects);
      peer.address = address;
      peer.channel = nullptr;
      peer.life = ++lives_;
      peer.next = absl::InfiniteFuture();
    }
    peer.task = WithoutIncarnation(task);
    id = ++peer.last_listener;
    peer.listeners[id] = std::move(listener);
    if (peer.next == absl::InfiniteFuture()) {
      // An unwatched peer may have been silent for any time, so its silence counts from now.
      peer.heard = world_.clock.Now();
      LookAtLocked(name, peer, peer.heard + lease_ * kProbePart);
    }
  }
  // Listeners are called outside the lock, because they may call this object again.
  Run(effects);
  // Destroying the returned object ends the watch.
  return Need(nullptr, [weak = weak_from_this(), name, id](void*) {
    if (const auto self = weak.lock()) self->Forget(name, id);
  });
}

void PeerReach::Forget(const std::string& name, uint64_t listener) {
  Listener gone;  // the listener of the watch that ended, destroyed outside the lock
  MutexLock lock(mutex_);
  const auto found = peers_.find(name);
  if (found == peers_.end()) return;
  const auto its = found->second.listeners.find(listener);
  if (its == found->second.listeners.end()) return;
  gone = std::move(its->second);
  found->second.listeners.erase(its);
}

void PeerReach::OnHeard(const proto::TaskRef& task) {
  Effects effects;
  {
    MutexLock lock(mutex_);
    const auto found = peers_.find(NameOf(task));
    if (found == peers_.end()) return;
    HeardLocked(found->second, effects);
  }
  Run(effects);
}

bool PeerReach::IsGivenUp(const proto::TaskRef& task) const {
  MutexLock lock(mutex_);
  const auto found = peers_.find(NameOf(task));
  return found != peers_.end() && found->second.given_up;
}

void PeerReach::LookAtLocked(const std::string& name, Peer& peer, absl::Time when) {
  peer.next = when;
  // The clock holds this object weakly, so a check that is due later does not keep it alive.
  world_.clock.CallAt(when, [weak = weak_from_this(), name, life = peer.life] {
    const auto self = weak.lock();
    if (self == nullptr || !self->looking_.Enter()) return;
    self->Look(name, life);
    self->looking_.Leave();
  });
}

void PeerReach::Look(const std::string& name, uint64_t life) {
  const absl::Time now = world_.clock.Now();
  Effects effects;
  bool probes = false;
  {
    MutexLock lock(mutex_);
    const auto found = peers_.find(name);
    // A check that was planned for an earlier address of the peer does nothing.
    if (found == peers_.end() || found->second.life != life) return;
    Peer& peer = found->second;
    const absl::Duration period = lease_ * kProbePart;
    // A check that runs late shows that this process was suspended, so it may not have read answers
    // that have arrived. The peer's silence then counts as one period at most.
    if (now > peer.next + period) peer.heard = std::max(peer.heard, now - period);
    const absl::Duration silence = now - peer.heard;
    // The checks of a peer end when no listener watches it and it was heard within one period.
    if (peer.listeners.empty() && !peer.unreached && silence < period) {
      peer.next = absl::InfiniteFuture();
      return;
    }
    if (!peer.unreached && silence >= lease_ * kUnreachedPart) {
      peer.unreached = true;
      effects.peer = name;
      effects.address = peer.address;
      effects.silence = silence;
      TellLocked(peer, Change::kUnreached, effects);
    }
    if (!peer.given_up && silence >= lease_) {
      peer.given_up = true;
      TellLocked(peer, Change::kGivenUp, effects);
    }
    // The next check is due after one period, or earlier if the peer would become unreached or
    // given up before that.
    absl::Time next = now + period;
    if (!peer.unreached) next = std::min(next, peer.heard + lease_ * kUnreachedPart);
    if (peer.unreached && !peer.given_up) next = std::min(next, peer.heard + lease_);
    probes = silence >= period;
    LookAtLocked(name, peer, next);
  }
  Run(effects);
  // The probe is started outside the lock, because it may end at once and call OnProbed().
  if (probes) Probe(name, life);
}

void PeerReach::Probe(const std::string& name, uint64_t life) {
  std::shared_ptr<Channel> channel;
  absl::Duration timeout;
  {
    MutexLock lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.life != life) return;
    Peer& peer = found->second;
    // After a failed probe the peer has no channel, so this probe opens a new one.
    if (peer.channel == nullptr) {
      peer.channel = world_.transport.Connect(peer.address, Lane::kControl);
    }
    channel = peer.channel;
    timeout = lease_ * kProbeTimeoutPart;
  }
  StartCall<proto::GetStatusResponse>(
      *channel, kGetStatus, Envelope<proto::GetStatusRequest>(), timeout,
      [weak = weak_from_this(), name,
       life](const absl::StatusOr<Envelope<proto::GetStatusResponse>>& answer) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        // An error that the peer itself has sent also proves that the peer is alive.
        bool heard = !FailedOnItsWay(answer.status());
        // An answer counts only if it names the peer, because another task may listen at its old
        // address.
        if (answer.ok()) heard = NameOf(answer->header.task()) == name;
        self->OnProbed(name, life, heard);
      });
}

void PeerReach::OnProbed(const std::string& name, uint64_t life, bool heard) {
  Effects effects;
  std::shared_ptr<Channel> broken;  // the channel of the failed probe, destroyed outside the lock
  {
    MutexLock lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.life != life) return;
    if (heard) {
      HeardLocked(found->second, effects);
    } else {
      broken = std::exchange(found->second.channel, nullptr);
    }
  }
  Run(effects);
}

void PeerReach::HeardLocked(Peer& peer, Effects& effects) {
  peer.heard = world_.clock.Now();
  peer.given_up = false;
  // Listeners are told about changes only: nothing has changed if the peer was reached before.
  if (!std::exchange(peer.unreached, false)) return;
  effects.peer = TaskName(peer.task);
  effects.address = peer.address;
  effects.silence = absl::ZeroDuration();
  TellLocked(peer, Change::kReachedAgain, effects);
}

void PeerReach::TellLocked(Peer& peer, Change change, Effects& effects) {
  for (const auto& [id, listener] : peer.listeners) effects.calls.emplace_back(listener, change);
}

void PeerReach::Run(Effects& effects) {
  // Listeners are called outside the lock, because they repeat or end calls, and these may watch
  // peers again.
  for (const auto& [listener, change] : effects.calls) {
    if (listener) listener(change);
  }
  if (effects.peer.empty()) return;
  if (effects.silence > absl::ZeroDuration()) {
    const absl::Duration silence = absl::Trunc(effects.silence, absl::Milliseconds(1));
    Log(LogLevel::kWarning, "peer_unreached",
        {{"peer", effects.peer},
         {"address", effects.address},
         {"silent_for", absl::FormatDuration(silence)}});
  } else {
    Log(LogLevel::kInfo, "peer_reached_again",
        {{"peer", effects.peer}, {"address", effects.address}});
  }
  // Reports are made on a strand and read the state there, so the last report has the latest state
  // of all peers.
  strand_.Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ReportAll();
  });
}

void PeerReach::ReportAll() {
  std::vector<proto::TaskRef> unreached;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, peer] : peers_) {
      if (peer.unreached) unreached.push_back(peer.task);
    }
  }
  if (report_) report_(std::move(unreached));
}

}  // namespace cohort
