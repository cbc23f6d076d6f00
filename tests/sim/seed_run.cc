#include "tests/sim/seed_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/end_check.h"
#include "tests/sim/gang_run.h"

namespace cohort {

namespace {

constexpr absl::Duration kEndTimeMax = absl::Minutes(2);  // simulated
constexpr size_t kLivesMax = 12;
constexpr absl::Duration kStartAgain = absl::Milliseconds(500);  // a task that ended as it started

}  // namespace

SeedRun::SeedRun(uint64_t seed, const SeedOptions& options)
    : JobRun(seed,
             [&] {
               Options made;
               made.faults.faults = options.faults;
               made.faults.part = options.parts;
               // As the gangs' job has it.
               if (options.parts) made.network.detection_max = absl::Seconds(5);
               made.faults.lease = absl::Seconds(1);
               made.events_kept = options.events_kept;
               made.events_max = 300'000;
               made.time_max = absl::Minutes(20);
               made.lives_max = kLivesMax;
               made.absent_ms_max = 1500;
               return made;
             }()),
      plan_(SeedPlan::Draw(seed, {injector().Wants(Phase::kFence), injector().WantsTakeover()})),
      checker_(disk(), {kRecoveryDirectory, !plan_.private_disks, plan_.steps_ahead_max,
                        [this](uint64_t coordinator) { return ClosuresOf(coordinator); },
                        [this](uint64_t coordinator, uint64_t closure) {
                          const auto& entries = LifeOf(coordinator)->log().entries();
                          return plan_.AmountOf(entries.at(closure).work);
                        },
                        [this](const std::string& what) { Violate(what); }}),
      runs_({[this](uint64_t epoch, uint64_t session) { return checker_.IsFenced(epoch, session); },
             [this](const std::string& what) { Violate(what); }}) {
  StartTasks();
}

JobRun::Machine SeedRun::MachineOf(const std::string& host) {
  Machine machine;
  if (RoleOf(host) == "ps") machine.delay = plan_.ps_delay;
  machine.files = this;
  return machine;
}

std::unique_ptr<JobLife> SeedRun::MakeLife(const World& world, JobLife::Options options) {
  CoordinatorLife::Checks checks;
  checks.disk_was_hit = [this] { return injector().HitTheDisk(); };
  checks.check = [this](CoordinatorLife& life, const std::vector<Tensor>& values) {
    return CheckEnd(life, values);
  };
  auto life = std::make_unique<CoordinatorLife>(world, actors(), plan_, std::move(options),
                                                std::move(checks));
  typed_lives_.push_back(life.get());
  return life;
}

SimFate SeedRun::OnRequest(const SimMessage& message) {
  checker_.OnRequest(message);
  runs_.OnRequest(message);
  return injector().OnRequest(message);
}

void SeedRun::OnArrival(const SimMessage& message) {
  checker_.OnArrival(message);
  runs_.OnArrival(message);
  injector().OnArrival(message);
}

SimFate SeedRun::OnResponse(const SimMessage& message) {
  checker_.OnResponse(message);
  runs_.OnResponse(message);
  return injector().OnResponse(message);
}

absl::Status SeedRun::OnFileCall(const std::string& host, const FileCall& call, size_t* written) {
  if (!HasTasks()) return absl::OkStatus();  // a world without faults until all have begun
  return injector().OnFileCall(host, call, written);
}

void SeedRun::OnFileDone(const std::string& host, const FileCall& call) {
  checker_.OnFileDone(host, call);
}

// It is started again, as a supervisor does it.
void SeedRun::OnStartFailed(TaskId task) {
  Note(absl::StrCat(task.ToString(), " cannot read what it has granted"));
  SetDown(task.ToString());
  sim().CallAt(sim().Now() + kStartAgain, [this, task] { StartTask(task); });
}

void SeedRun::StartReplacement() {
  if (finisher_ != nullptr) return;
  StartCoordinator();
  if (lives().size() >= kLivesMax || sim().rng().Below(4) != 0) return;
  sim().CallAt(sim().Now() + absl::Microseconds(sim().rng().Below(3000)), [this] {
    if (finisher_ == nullptr) StartCoordinator();
  });
}

void SeedRun::CrashDisk() {
  Note("the disk loses power");
  disk().Crash(sim().rng().Below(2) == 0 ? CrashLoss::kUnsyncedBytes
                                         : CrashLoss::kUnsyncedBytesAndNames);
  checker_.CheckVisible();
}

CoordinatorLife* SeedRun::LifeOf(uint64_t incarnation) const {
  for (CoordinatorLife* const life : typed_lives_) {
    if (life->incarnation() == incarnation) return life;
  }
  return nullptr;
}

std::vector<ClosureKnowledge> SeedRun::ClosuresOf(uint64_t coordinator) {
  std::vector<ClosureKnowledge> closures;
  CoordinatorLife* const life = LifeOf(coordinator);
  if (life == nullptr) return closures;
  const std::map<uint64_t, ItemLog::RoundCount> rounds = life->log().Rounds();
  for (const auto& [id, entry] : life->log().entries()) {
    if (entry.state != ItemLog::State::kDone && entry.state != ItemLog::State::kOpen) continue;
    // What an error breaks off is given up, also where it was answered.
    if (entry.work.round > 0) {
      const ItemLog::RoundCount& round = rounds.at(entry.work.round);
      if (round.admitted == 0 && round.done < plan_.rounds->aggregate) continue;
    }
    ClosureKnowledge closure{id, entry.state == ItemLog::State::kDone, {}, entry.work.round};
    for (const char* variable : {kVariableA, kVariableB}) {
      if (plan_.Adds(entry.work, variable)) closure.variables.push_back(variable);
    }
    if (!closure.variables.empty()) closures.push_back(std::move(closure));
  }
  return closures;
}

bool SeedRun::IsDone() {
  if (finisher_ != nullptr && finisher_->end() != JobLife::End::kRunning) return true;
  // Of several that began at one time all may have lost; somebody starts the next.
  if (!IsRunning() && !HasLifeAhead()) StartCoordinator();
  return false;
}

bool SeedRun::CheckEnd(CoordinatorLife& life, const std::vector<Tensor>& values) {
  if (finisher_ != nullptr) return false;
  for (int i = 0; i < plan_.ps; ++i) {
    if (checker_.HolderOf(absl::StrCat("ps:", i)) != life.incarnation()) return false;
  }
  finisher_ = &life;
  const EndCheck check{plan_, checker_, [this](const std::string& what) { Violate(what); }};
  for (size_t i = 0; i < values.size(); ++i) {
    check.CheckVariable(life.log(), life.programs().variables[i], values[i]);
  }
  return true;
}

// Those that were taken over are told; those that have not begun are stopped.
void SeedRun::EndLives() {
  StopFaults();
  const auto others_end = [this] {
    return std::none_of(lives().begin(), lives().end(), [this](const auto& life) {
      return life->end() == JobLife::End::kRunning && checker_.WasGranted(life->incarnation());
    });
  };
  for (const auto& life : lives()) {
    if (!checker_.WasGranted(life->incarnation())) life->Kill();
  }
  const bool ended = actors().RunUntil(others_end, kEndTimeMax);
  for (const auto& life : lives()) {
    if (life->end() == JobLife::End::kRunning) life->GiveUp();
  }
  actors().RunUntil([this] { return !IsRunning(); }, kEndTimeMax);
  for (const auto& life : lives()) {
    if (!ended && !HasViolations() && life->end() != JobLife::End::kFinished) {
      Violate(absl::StrCat("was taken over and did not end: ", life->host(), ": ",
                           life->error().ToString()));
    }
  }
  if (!HasViolations()) CheckEnds();
}

void SeedRun::End(bool in_time) {
  if (!in_time) {
    for (const auto& life : lives()) {
      if (life->end() == JobLife::End::kRunning) life->GiveUp();
    }
    actors().RunUntil([this] { return !IsRunning(); }, absl::Seconds(1));
    for (const auto& life : lives()) {
      Violate(absl::StrCat("did not end: ", life->host(), ": ", life->error().ToString()));
    }
  }
  EndLives();
  checker_.CheckVisible();
}

std::string SeedRun::Describe() const {
  return absl::StrCat(plan_.Describe(), "; ", injector().Describe());
}

SeedResult RunSeed(uint64_t seed, const SeedOptions& options) {
  if (options.job == SeedJob::kGangs) return GangRun(seed, options).Run();
  return SeedRun(seed, options).Run();
}

}  // namespace cohort
