#include "worker/ps_client/ps_link.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cohort {

PsLink::PsLink(PsRoute route, std::shared_ptr<PeerReach> reach)
    : reach_(std::move(reach)), route_(std::move(route)) {}

PsRoute PsLink::route() const {
  MutexLock lock(mutex_);
  return route_;
}

void PsLink::Reroute(PsRoute route) {
  bool moved = false;
  PeerReach::Need need;  // the old watch, destroyed outside the lock, as is the old channel
  {
    MutexLock lock(mutex_);
    moved = route_.channel != route.channel;
    std::swap(route_, route);
    // The coordinator has checked the server, so the incident ends and repeats get a new window.
    incident_start_ = absl::InfiniteFuture();
    if (moved) need.swap(need_);
    moved = moved && !calls_.empty();
  }
  // If the server's channel is unchanged, calls under way go on undisturbed.
  if (!moved) return;
  WatchServer();
  for (const auto& call : OpenCalls()) call->Renew();
}

void PsLink::WatchServer() {
  if (reach_ == nullptr) return;
  const PsRoute where = route();
  if (where.own) return;
  PeerReach::Need need =
      reach_->Watch(where.task, where.address, [weak = weak_from_this()](PeerReach::Change change) {
        if (const auto self = weak.lock()) self->OnReach(change);
      });
  MutexLock lock(mutex_);
  // If the last call has left meanwhile, the new watch is dropped.
  if (!calls_.empty()) need.swap(need_);
}

uint64_t PsLink::Enter(std::weak_ptr<OpenPsCall> call) {
  uint64_t id = 0;
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = calls_.empty();
    id = ++last_call_;
    calls_[id] = std::move(call);
  }
  // The watch is set up outside the lock, because it may call OnReach() at once.
  if (first) WatchServer();
  return id;
}

void PsLink::Leave(uint64_t call) {
  PeerReach::Need need;  // the watch of the server, destroyed outside the lock
  MutexLock lock(mutex_);
  calls_.erase(call);
  if (calls_.empty()) need.swap(need_);
}

bool PsLink::IsGivenUp() const { return reach_ != nullptr && reach_->IsGivenUp(route().task); }

void PsLink::OnReach(PeerReach::Change change) {
  // A server that is merely unreached may answer soon, so calls are not repeated yet.
  if (change == PeerReach::Change::kUnreached) return;
  for (const auto& call : OpenCalls()) {
    if (change == PeerReach::Change::kGivenUp) {
      call->GiveUp();
    } else {
      call->Renew();
    }
  }
}

std::vector<std::shared_ptr<OpenPsCall>> PsLink::OpenCalls() const {
  std::vector<std::shared_ptr<OpenPsCall>> open;
  MutexLock lock(mutex_);
  for (const auto& [id, weak] : calls_) {
    if (auto call = weak.lock()) open.push_back(std::move(call));
  }
  return open;
}

void PsLink::OnAnswer() {
  proto::TaskRef task;
  {
    MutexLock lock(mutex_);
    incident_start_ = absl::InfiniteFuture();
    task = route_.task;
  }
  if (reach_ != nullptr) reach_->OnHeard(task);
}

PsLink::Incident PsLink::OnFailure(absl::Time now) {
  MutexLock lock(mutex_);
  incident_start_ = std::min(incident_start_, now);
  return {incident_start_, incident_start_ + route_.window};
}

}  // namespace cohort
