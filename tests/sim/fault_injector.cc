#include "tests/sim/fault_injector.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

constexpr int kPausesMax = 4;
constexpr uint64_t kInjectorSalt = 0x5eed;

bool IsMessageFault(Fault fault) { return fault <= Fault::kDelay; }
bool IsStepPhase(Phase phase) {
  return phase == Phase::kPull || phase == Phase::kPush || phase == Phase::kReply ||
         phase == Phase::kGang || phase == Phase::kSingle || phase == Phase::kFrame;
}
bool IsDiskFault(Fault fault) { return fault >= Fault::kSlowDisk && fault <= Fault::kDiskError; }
// Only where something was lost before.
bool FollowsALoss(Phase phase) {
  return phase == Phase::kAgain || phase == Phase::kEndGangs || phase == Phase::kAbort ||
         phase == Phase::kRestore;
}

absl::string_view RoleKilledBy(Fault kill) {
  return kill == Fault::kKillWorker ? "worker" : kill == Fault::kKillPs ? "ps" : "chief";
}

}  // namespace

absl::string_view RoleOf(const std::string& host) {
  return absl::string_view(host).substr(0, host.find(':'));
}

FaultInjector::FaultInjector(uint64_t seed, Options options, FaultTarget& target)
    : options_(std::move(options)), target_(target), rng_(Mix64(seed ^ kInjectorSalt)) {
  if (options_.part) {
    DrawPart();
    return;
  }
  // A third of the runs each: no noise, some, much.
  const double noise = static_cast<double>(rng_.Below(3)) * options_.noise;
  drop_ = May(Fault::kDropRequest) || May(Fault::kDropResponse) ? noise : 0;
  duplicate_ = May(Fault::kDuplicate) ? noise : 0;
  delay_ = May(Fault::kDelay) ? noise : 0;
  const uint64_t triggers = 1 + rng_.Below(static_cast<uint64_t>(options_.triggers_max));
  for (uint64_t i = 0; i < triggers; ++i) triggers_.push_back(DrawTrigger());
  if (options_.job != SeedJob::kGangs) return;
  for (uint64_t i = 0; i < triggers; ++i) {
    if (!FollowsALoss(triggers_[i].phase) || !May(Fault::kKillWorker)) continue;
    triggers_.push_back({Fault::kKillWorker, Phase::kGang, Point::kArrival, 1 + rng_.Below(60)});
  }
}

bool FaultInjector::May(Fault fault) const {
  return options_.faults.empty() ||
         std::find(options_.faults.begin(), options_.faults.end(), fault) != options_.faults.end();
}

bool FaultInjector::Draw(double probability) {
  return probability > 0 && rng_.Uniform() < probability;
}

absl::Duration FaultInjector::DrawDuration(double leases_min, double leases_max) {
  return options_.lease * (leases_min + (leases_max - leases_min) * rng_.Uniform());
}

FaultInjector::Trigger FaultInjector::DrawTrigger() {
  Trigger trigger;
  // Each fault as often as any other, also those of few phases.
  const absl::Span<const Fault> faults =
      options_.faults.empty() ? FaultsOf(options_.job) : absl::MakeConstSpan(options_.faults);
  const absl::Span<const Phase> phases = PhasesOf(options_.job);
  trigger.fault = faults[rng_.Below(faults.size())];
  do {
    trigger.phase = phases[rng_.Below(phases.size())];
  } while (!WhyNever(trigger.fault, trigger.phase).empty());
  trigger.point = DrawPoint(trigger.fault, trigger.phase);
  const bool frequent = IsStepPhase(trigger.phase) || trigger.point == Point::kFile;
  trigger.countdown = 1 + rng_.Below(frequent ? 40 : 8);
  return trigger;
}

FaultInjector::Point FaultInjector::DrawPoint(Fault fault, Phase phase) {
  if (fault == Fault::kDropResponse) return Point::kResponse;
  if (IsMessageFault(fault)) return Point::kSent;
  if (IsDiskFault(fault) || phase == Phase::kCommit) return Point::kFile;
  const bool files =
      options_.job == SeedJob::kCounters && (phase == Phase::kSave || phase == Phase::kRestore);
  switch (rng_.Below(files ? 4 : 3)) {
    case 0:
      return Point::kSent;
    case 1:
      return Point::kArrival;
    case 2:
      return Point::kResponse;
    default:
      return Point::kFile;
  }
}

bool FaultInjector::Wants(Phase phase) const {
  return std::any_of(triggers_.begin(), triggers_.end(),
                     [&](const Trigger& trigger) { return trigger.phase == phase; });
}

bool FaultInjector::WantsTakeover() const {
  return std::any_of(triggers_.begin(), triggers_.end(), [](const Trigger& trigger) {
    const bool other =
        trigger.fault == Fault::kKillCoordinator || trigger.fault == Fault::kZombieCoordinator;
    return other && IsStepPhase(trigger.phase);
  });
}

std::string FaultInjector::Describe() const {
  std::string text = absl::StrCat("noise ", drop_ + duplicate_ + delay_);
  for (const Trigger& trigger : triggers_) {
    absl::StrAppend(&text, "; ", NameOf(trigger.fault), " at ", NameOf(trigger.phase),
                    trigger.done ? " (struck)" : "");
  }
  return text;
}

Phase FaultInjector::PhaseOf(const SimMessage& message) {
  const absl::string_view method = message.method;
  if (absl::EndsWith(method, "/Watch") || absl::EndsWith(method, "/GetStats")) return Phase::kIdle;
  if (absl::EndsWith(method, "/Attach") || absl::EndsWith(method, "/GetStatus")) {
    return Phase::kClaim;
  }
  if (absl::EndsWith(method, "/Pull")) return Phase::kPull;
  if (absl::EndsWith(method, "/Push")) return Phase::kPush;
  if (absl::EndsWith(method, "/HoldShard")) return Phase::kHold;
  for (const char* of_save : {"/ProbeDirectory", "/WriteShard", "/ReadShard", "/ReleaseShard"}) {
    if (absl::EndsWith(method, of_save)) return Phase::kSave;
  }
  for (const char* of_restore :
       {"/StageRestore", "/WriteStaged", "/FetchStaged", "/RestoreShard"}) {
    if (absl::EndsWith(method, of_restore)) return Phase::kRestore;
  }
  if (absl::EndsWith(method, "/Fence")) return Phase::kFence;
  if (absl::EndsWith(method, "/Deliver")) return Phase::kFrame;
  if (absl::EndsWith(method, "/AbortGroup")) return Phase::kAbort;
  if (absl::EndsWith(method, "/EndGangs")) return Phase::kEndGangs;
  if (absl::EndsWith(method, "/WatchGroup") || absl::EndsWith(method, "/AskProgress")) {
    return Phase::kGroup;
  }
  if (!absl::EndsWith(method, "/RunClosure")) return Phase::kCreate;
  return PhaseOfRun(message);
}

Phase FaultInjector::PhaseOfRun(const SimMessage& message) {
  proto::RunClosureRequest request;
  COHORT_CHECK(request.ParseFromString(message.request), "a request that production code made");
  if (options_.job == SeedJob::kGangs) {
    if (!request.has_gang()) return Phase::kSingle;
    const std::pair<std::string, uint64_t> run(message.from, request.attempt());
    const auto known = first_run_.emplace(request.closure_id(), run).first;
    return known->second == run ? Phase::kGang : Phase::kAgain;
  }
  const uint64_t first =
      epoch_of_closure_.emplace(request.closure_id(), request.epoch()).first->second;
  return first == request.epoch() ? Phase::kReply : Phase::kResume;
}

FaultInjector::Trigger* FaultInjector::Next(const Place& place) {
  if (stopped_) return nullptr;
  Trigger* next = nullptr;
  for (Trigger& trigger : triggers_) {
    if (trigger.done || trigger.phase != place.phase || trigger.point != place.point) continue;
    if (trigger.countdown > 0) --trigger.countdown;
    if (trigger.countdown == 0 && next == nullptr) next = &trigger;
  }
  if (next != nullptr) next->done = true;
  return next;
}

std::string FaultInjector::Victim(absl::string_view role, const Place& place) {
  const std::vector<std::string> alive = target_.Alive(role);
  for (const std::string& host : alive) {
    if (host == place.to || host == place.from) return host;
  }
  return alive.empty() ? "" : alive[rng_.Below(alive.size())];
}

bool FaultInjector::KillVictim(absl::string_view role, const Place& place) {
  const std::string victim = Victim(role, place);
  if (victim.empty()) return false;
  target_.Kill(victim);
  return true;
}

bool FaultInjector::CutWorkers(const Place& place, absl::Duration duration) {
  std::vector<std::string> workers = target_.Alive("worker");
  if (workers.size() < 2) return false;
  const std::string one = Victim("worker", place);
  workers.erase(std::remove(workers.begin(), workers.end(), one), workers.end());
  target_.Cut(one, workers[rng_.Below(workers.size())], /*both_ways=*/true, duration);
  return true;
}

bool FaultInjector::StrikeHosts(Fault fault, const Place& place) {
  const absl::Duration shorter = DrawDuration(0.05, 0.9);
  const absl::Duration longer = DrawDuration(1.1, 3);
  if (fault == Fault::kKillWorker) return KillVictim("worker", place);
  if (fault == Fault::kKillPs) return KillVictim("ps", place);
  if (fault == Fault::kKillCoordinator) return KillVictim("chief", place);
  if (fault == Fault::kZombieWorker || fault == Fault::kZombieCoordinator) {
    const bool worker = fault == Fault::kZombieWorker;
    const std::string victim = Victim(worker ? "worker" : "chief", place);
    if (victim.empty()) return false;
    target_.Isolate(victim, longer);
    if (!worker) target_.TakeOver();
    return true;
  }
  if (fault == Fault::kPart) return CutPair();
  if (fault == Fault::kRemoveWorker) {
    const std::string victim = Victim("worker", place);
    const absl::Duration absence = Draw(0.5)   ? absl::InfiniteDuration()
                                   : Draw(0.5) ? shorter
                                               : longer;
    if (victim.empty() || !target_.Remove(victim, absence)) return false;
    if (Draw(0.5)) {
      target_.Later(shorter, [this, victim] {
        if (!stopped_) target_.Kill(victim);
      });
    }
    return true;
  }
  if (fault == Fault::kCutWorkers) return CutWorkers(place, Draw(0.5) ? shorter : longer);
  if (fault == Fault::kStopShort || fault == Fault::kStopLong) {
    const std::string victim = Victim("worker", place);
    if (!victim.empty()) target_.Stop(victim, fault == Fault::kStopShort ? shorter : longer);
    return !victim.empty();
  }
  // A cut of the link that the message is on; a file call has none, so any link of its host.
  const std::string from = place.from;
  const std::string to =
      !place.to.empty() ? place.to : Victim(RoleOf(from) == "ps" ? "chief" : "ps", {});
  if (from.empty() || to.empty() || from == to) return false;
  const bool one_way = fault == Fault::kCutOneWay;
  const bool back = one_way && Draw(0.5);
  target_.Cut(back ? to : from, back ? from : to, !one_way,
              fault == Fault::kCutShort || (one_way && Draw(0.5)) ? shorter : longer);
  return true;
}

void FaultInjector::StrikeMessage(Fault fault, SimFate& fate) {
  if (fault == Fault::kDuplicate) {
    ++fate.copies;
    // Late enough that what was asked for has been built upon.
    if (Draw(0.5)) fate.copy_delay += DrawDuration(0, Draw(0.5) ? 0.02 : 0.5);
  } else if (fault == Fault::kDelay) {
    fate.delay += DrawDuration(0, Draw(0.1) ? 3 : 0.5);
  } else {
    fate.lose = true;
  }
}

void FaultInjector::StrikeAt(const Place& place) {
  Trigger* const trigger = Next(place);
  if (trigger == nullptr) return;
  if (StrikeHosts(trigger->fault, place)) table_.Count(trigger->fault, place.phase);
}

SimFate FaultInjector::OnRequest(const SimMessage& message) {
  SimFate fate;
  const Place place{PhaseOf(message), Point::kSent, message.from, message.to};
  if (Trigger* const trigger = Next(place)) {
    const Fault fault = trigger->fault;
    if (IsMessageFault(fault)) {
      StrikeMessage(fault, fate);
      table_.Count(fault, place.phase);
    } else if (StrikeHosts(fault, place)) {
      table_.Count(fault, place.phase);
    }
  }
  if (stopped_) return fate;
  const auto noise = [&](double probability, Fault fault) {
    if (!Draw(probability)) return;
    StrikeMessage(fault, fate);
    table_.Count(fault, place.phase);
  };
  noise(drop_, Fault::kDropRequest);
  // There are few others, and each does more.
  const bool rare = !IsStepPhase(place.phase) && place.phase != Phase::kIdle;
  noise(rare ? 5 * duplicate_ : duplicate_, Fault::kDuplicate);
  noise(delay_, Fault::kDelay);
  return fate;
}

void FaultInjector::OnArrival(const SimMessage& message) {
  StrikeAt({PhaseOf(message), Point::kArrival, message.from, message.to});
}

SimFate FaultInjector::OnResponse(const SimMessage& message) {
  SimFate fate;
  const Place place{PhaseOf(message), Point::kResponse, message.from, message.to};
  if (Trigger* const trigger = Next(place)) {
    if (trigger->fault == Fault::kDropResponse) {
      fate.lose = true;
      table_.Count(trigger->fault, place.phase);
    } else if (StrikeHosts(trigger->fault, place)) {
      table_.Count(trigger->fault, place.phase);
    }
  }
  if (!stopped_ && Draw(drop_)) {
    fate.lose = true;
    table_.Count(Fault::kDropResponse, place.phase);
  }
  if (!stopped_ && Draw(delay_)) {
    StrikeMessage(Fault::kDelay, fate);
    table_.Count(Fault::kDelay, place.phase);
  }
  return fate;
}

// A loss strikes best while something takes long or has just failed: sometimes another process dies
// within this time.
void FaultInjector::KillMeanwhile(const Place& place, absl::Duration within) {
  constexpr std::array<Fault, 4> kKills = {Fault::kKillWorker, Fault::kKillCoordinator,
                                           Fault::kKillPs, Fault::kKillPs};
  const Fault kill = kKills[rng_.Below(kKills.size())];
  if (!May(kill) || Draw(0.5)) return;
  target_.Later(within * rng_.Uniform(), [this, kill, place] {
    if (stopped_) return;
    std::vector<std::string> hosts = target_.Alive(RoleKilledBy(kill));
    hosts.erase(std::remove(hosts.begin(), hosts.end(), place.from), hosts.end());
    if (hosts.empty()) return;
    target_.Kill(hosts[rng_.Below(hosts.size())]);
    table_.Count(kill, place.phase);
  });
}

void FaultInjector::SlowDown(const Place& place) {
  table_.Count(Fault::kSlowDisk, place.phase);
  const absl::Duration pause = DrawDuration(0.1, 2);
  KillMeanwhile(place, pause);
  ++pauses_;
  target_.Pause(pause);
  --pauses_;
}

void FaultInjector::FillUp(const std::string& host) {
  full_.insert(host);
  target_.Later(DrawDuration(0.1, 0.6), [this, host] { full_.erase(host); });
}

absl::Status FaultInjector::OnFileCall(const std::string& host, const FileCall& call,
                                       size_t* written) {
  const bool reads = call.kind == FileCall::Kind::kOpen || call.kind == FileCall::Kind::kRead ||
                     call.kind == FileCall::Kind::kList;
  Place place{Phase::kSave, Point::kFile, host, ""};
  // The index and the state file are the coordinator's; shards are of whoever sees the directory.
  const bool shard = RoleOf(host) == "ps" || absl::StrContains(call.path, ".data-");
  if (!shard) place.phase = reads ? Phase::kClaim : Phase::kCommit;
  if (shard && reads) place.phase = Phase::kRestore;
  if (absl::StrContains(call.path, ".grant")) place.phase = Phase::kClaim;
  if (full_.count(host) > 0 && !reads && !stopped_) {
    return absl::ResourceExhaustedError(absl::StrCat(call.path, ": the disk is full"));
  }
  Trigger* const trigger = Next(place);
  if (trigger == nullptr) return absl::OkStatus();
  const Fault fault = trigger->fault;
  if (fault == Fault::kSlowDisk) {
    if (pauses_ == kPausesMax) return absl::OkStatus();
    SlowDown(place);
    return absl::OkStatus();
  }
  if (written != nullptr) *written = rng_.Below(call.bytes + 1);
  if (IsDiskFault(fault)) {
    table_.Count(fault, place.phase);
    hit_the_disk_ = true;
    KillMeanwhile(place, DrawDuration(0, 0.2));
    if (fault == Fault::kDiskError && reads) {
      return absl::UnavailableError(absl::StrCat(call.path, ": the disk cannot be read"));
    }
    if (fault == Fault::kDiskError) {
      if (Draw(0.5)) FillUp(host);
      return absl::ResourceExhaustedError(absl::StrCat(call.path, ": the disk fails"));
    }
    target_.CrashDisk();
    return absl::UnavailableError(absl::StrCat(call.path, ": the disk has lost power"));
  }
  if (StrikeHosts(fault, place)) table_.Count(fault, place.phase);
  return absl::OkStatus();
}

}  // namespace cohort
