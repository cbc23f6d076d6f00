// The runs whose one fault is a partition of one pair.

#include <algorithm>
#include <utility>

#include "tests/sim/fault_injector.h"

namespace cohort {

namespace {

// Whether the phase comes only where a process was lost before.
bool FollowsALoss(Phase phase) {
  return phase == Phase::kAgain || phase == Phase::kEndGangs || phase == Phase::kAbort ||
         phase == Phase::kRestore || phase == Phase::kResume;
}

}  // namespace

void FaultInjector::DrawPart() {
  const absl::Span<const Phase> phases = PhasesOf(options_.job);
  Trigger part;
  part.fault = Fault::kPart;
  part.phase = phases[rng_.Below(phases.size())];
  part.point = DrawPoint(part.fault, part.phase);
  part.countdown = 1 + rng_.Below(20);
  triggers_.push_back(part);
  if (!FollowsALoss(part.phase)) return;
  const bool gangs = options_.job == SeedJob::kGangs;
  triggers_.push_back({gangs ? Fault::kKillWorker : Fault::kKillPs,
                       gangs ? Phase::kGang : Phase::kReply, Point::kArrival, 1 + rng_.Below(20)});
}

bool FaultInjector::Kills() const {
  return std::any_of(triggers_.begin(), triggers_.end(), [](const Trigger& trigger) {
    return trigger.fault == Fault::kKillWorker || trigger.fault == Fault::kKillPs;
  });
}

bool FaultInjector::CutPair() {
  std::vector<std::string> hosts;
  for (const char* role : {"chief", "ps", "worker"}) {
    for (std::string& host : target_.Alive(role)) hosts.push_back(std::move(host));
  }
  if (hosts.size() < 2) return false;
  std::swap(hosts[rng_.Below(hosts.size())], hosts.back());
  const std::string from = std::move(hosts.back());
  hosts.pop_back();
  // So long that a job which stands still meanwhile is seen to.
  constexpr absl::Duration kSeen = absl::Seconds(8);
  const std::string to = hosts[rng_.Below(hosts.size())];
  const bool both_ways = Draw(0.5);
  const absl::Duration leases = DrawDuration(3.3, 9);  // a plan's lease is up to three of these
  target_.Cut(from, to, both_ways, leases + kSeen * rng_.Uniform());
  return true;
}

}  // namespace cohort
