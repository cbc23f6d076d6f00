#include "worker/ps_link.h"

#include <algorithm>
#include <utility>

namespace cohort {

PsLink::PsLink(PsRoute route) : route_(std::move(route)) {}

PsRoute PsLink::route() const {
  MutexLock lock(mutex_);
  return route_;
}

void PsLink::Reroute(PsRoute route) {
  bool moves = false;
  {
    MutexLock lock(mutex_);
    moves = route_.channel != route.channel;
    if (!moves) route.calls = route_.calls;
    std::swap(route_, route);  // the old channel dies after the lock
    incident_start_ = absl::InfiniteFuture();
  }
  if (moves) route.calls->CancelAll();
}

void PsLink::OnAnswer() {
  MutexLock lock(mutex_);
  incident_start_ = absl::InfiniteFuture();
}

PsLink::Incident PsLink::OnFailure(absl::Time now) {
  MutexLock lock(mutex_);
  incident_start_ = std::min(incident_start_, now);
  return {incident_start_, incident_start_ + route_.window};
}

}  // namespace cohort
