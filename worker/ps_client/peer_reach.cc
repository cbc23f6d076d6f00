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
// Parts of the lease: how often a peer is probed, and how long a probe waits; after how long
// without a word it is not reached. The coordinator decides within what is left of the lease.
constexpr double kProbePart = 0.2;
constexpr double kProbeTimeoutPart = 0.5;
constexpr double kUnreachedPart = 0.5;

// A process that takes another's place has its name.
proto::TaskRef WithoutIncarnation(proto::TaskRef task) {
  task.clear_incarnation();
  return task;
}

bool FailedOnItsWay(const absl::Status& status) {
  return ClassOf(status) == proto::ERROR_CLASS_UNKNOWN &&
         (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsCancelled(status));
}

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
      peer.heard = world_.clock.Now();  // counted for all that is known
      LookAtLocked(name, peer, peer.heard + lease_ * kProbePart);
    }
  }
  Run(effects);
  return Need(nullptr, [weak = weak_from_this(), name, id](void*) {
    if (const auto self = weak.lock()) self->Forget(name, id);
  });
}

void PeerReach::Forget(const std::string& name, uint64_t listener) {
  Listener gone;  // dies outside the lock
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
  world_.clock.CallAt(when, [weak = weak_from_this(), name, life = peer.life] {
    if (const auto self = weak.lock()) self->Look(name, life);
  });
}

void PeerReach::Look(const std::string& name, uint64_t life) {
  const absl::Time now = world_.clock.Now();
  Effects effects;
  bool probes = false;
  {
    MutexLock lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.life != life) return;
    Peer& peer = found->second;
    const absl::Duration period = lease_ * kProbePart;
    // This process itself stood still: answers may be there that it has not read.
    if (now > peer.next + period) peer.heard = std::max(peer.heard, now - period);
    const absl::Duration silence = now - peer.heard;
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
    absl::Time next = now + period;
    if (!peer.unreached) next = std::min(next, peer.heard + lease_ * kUnreachedPart);
    if (peer.unreached && !peer.given_up) next = std::min(next, peer.heard + lease_);
    probes = silence >= period;
    LookAtLocked(name, peer, next);
  }
  Run(effects);
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
        // A refusal is a word, too.
        bool heard = !FailedOnItsWay(answer.status());
        if (answer.ok()) heard = NameOf(answer->header.task()) == name;
        self->OnProbed(name, life, heard);
      });
}

void PeerReach::OnProbed(const std::string& name, uint64_t life, bool heard) {
  Effects effects;
  std::shared_ptr<Channel> broken;  // dies outside the lock
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
  if (!std::exchange(peer.unreached, false)) return;
  effects.peer = TaskName(peer.task);
  effects.address = peer.address;
  effects.silence = absl::ZeroDuration();
  TellLocked(peer, Change::kReachedAgain, effects);
}

void PeerReach::TellLocked(Peer& peer, Change change, Effects& effects) {
  for (const auto& [id, listener] : peer.listeners) effects.told.emplace_back(listener, change);
}

void PeerReach::Run(Effects& effects) {
  for (const auto& [listener, change] : effects.told) {
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
