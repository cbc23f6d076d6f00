#include "tests/sim/gang_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/gang_life.h"

namespace cohort {

namespace {

constexpr absl::Duration kEndTimeMax = absl::Minutes(3);  // simulated
constexpr absl::Duration kQuiet = absl::Minutes(1);
// There are some ten messages for each that a counter's step has.
constexpr double kNoise = 0.0015;

}  // namespace

GangRun::GangRun(uint64_t seed, const SeedOptions& options)
    : JobRun(seed,
             [&] {
               Options made;
               made.faults.job = SeedJob::kGangs;
               made.faults.faults = options.faults;
               made.faults.part = options.parts;
               made.faults.lease = absl::Seconds(1);
               made.faults.noise = kNoise;
               made.network.detection_max = absl::Seconds(5);
               made.events_kept = options.events_kept;
               made.events_max = 1'000'000;
               made.time_max = absl::Minutes(10);
               made.lives_max = 6;
               made.absent_ms_max = 3000;
               return made;
             }()),
      plan_(GangPlan::Draw(seed)),
      checker_(sim(), plan_, [this](const std::string& what) { Violate(what); }) {
  StartTasks();
}

// What tasks leave on their executors, communicators above all, ends before these do.
GangRun::~GangRun() {
  EndTasks();
  sim().RunFor(kQuiet);
}

JobRun::Machine GangRun::MachineOf(const std::string& host) {
  Machine machine;
  if (RoleOf(host) == "worker") machine.delay = plan_.worker_delay;
  return machine;
}

std::unique_ptr<JobLife> GangRun::MakeLife(const World& world, JobLife::Options options) {
  return std::make_unique<GangLife>(world, actors(), plan_, std::move(options));
}

absl::Duration GangRun::DelayByStop(const SimMessage& message) const {
  absl::Duration delay;
  for (const std::string* const host : {&message.from, &message.to}) {
    const auto until = stopped_until_.find(*host);
    if (until != stopped_until_.end()) delay = std::max(delay, until->second - sim().Now());
  }
  return delay;
}

SimFate GangRun::OnRequest(const SimMessage& message) {
  SimFate fate = injector().OnRequest(message);
  fate.delay += DelayByStop(message);
  checker_.OnRequest(message, fate);
  return fate;
}

void GangRun::OnArrival(const SimMessage& message) {
  checker_.OnArrival(message);
  injector().OnArrival(message);
}

SimFate GangRun::OnResponse(const SimMessage& message) {
  SimFate fate = injector().OnResponse(message);
  fate.delay += DelayByStop(message);
  if (!IsDown(message.to)) checker_.OnResponse(message, fate);
  return fate;
}

void GangRun::OnKill(const std::string& host) {
  Note(absl::StrCat("kill ", host));
  checker_.OnKill(host);
  stopped_until_.erase(host);
}

void GangRun::Stop(const std::string& host, absl::Duration duration) {
  Note(absl::StrCat("stop ", host, " for ", absl::FormatDuration(duration)));
  OnDisturbance(duration);
  ProcessOf(host).executor->Stop(duration);
  absl::Time& until = stopped_until_[host];
  until = std::max(until, sim().Now() + duration);
}

bool GangRun::Remove(const std::string& host, absl::Duration absence) {
  const auto removed = std::find_if(lives().begin(), lives().end(), [&](const auto& life) {
    return life->RemoveWorker(host, absence);
  });
  if (removed == lives().end()) return false;
  Note(absl::StrCat((*removed)->host(), " removes ", host, " for ", absl::FormatDuration(absence)));
  return true;
}

void GangRun::StartReplacement() {
  if (!all_done_ || !IsRunning()) StartCoordinator();
}

void GangRun::StopFaults() {
  all_done_ = true;
  JobRun::StopFaults();
  for (const auto& life : lives()) life->AddRemoved();
}

// When one has finished, and all others have ended.
bool GangRun::IsDone() {
  if (IsRunning()) return false;
  const bool finished = std::any_of(lives().begin(), lives().end(), [](const auto& life) {
    return life->end() == JobLife::End::kFinished;
  });
  if (!finished && !HasLifeAhead()) StartCoordinator();
  return finished;
}

void GangRun::End(bool in_time) {
  for (const auto& life : lives()) {
    if (in_time || life->end() != JobLife::End::kRunning) continue;
    Violate(absl::StrCat("did not end: ", life->DescribeWait()));
  }
  StopFaults();
  for (const auto& life : lives()) life->GiveUp();
  actors().RunUntil([this] { return !IsRunning(); }, kEndTimeMax);
  // A call that its caller has lost waits at a worker until its deadline.
  const auto steps = static_cast<int64_t>(plan_.steps_max());
  actors().RunUntil([] { return false; }, std::max(kQuiet, plan_.closure_timeout() * steps));
  if (!HasViolations()) checker_.CheckEnd();
}

std::string GangRun::Describe() const {
  const GangChecker::Counts& counts = checker_.counts();
  return absl::StrCat(plan_.Describe(), "; ", injector().Describe(), "; answers=", counts.answers,
                      " attempts=", counts.attempts, " causes=", counts.causes,
                      counts.parts > 0 ? absl::StrCat(" parts=", counts.parts) : "",
                      " lives=", lives().size());
}

}  // namespace cohort
