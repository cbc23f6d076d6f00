#include "tests/sim/seed_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/wire/error_detail.h"
#include "tests/sim/end_check.h"
#include "tests/sim/gang_run.h"

namespace cohort {

namespace {

constexpr char kDirectory[] = "/recovery";
constexpr absl::Duration kRunTimeMax = absl::Minutes(20);  // simulated
constexpr absl::Duration kEndTimeMax = absl::Minutes(2);
constexpr absl::Duration kStartAgain = absl::Milliseconds(500);  // a task that ended as it started
constexpr uint64_t kFirstIncarnation = 1000;
constexpr int kLivesMax = 12;
constexpr uint64_t kEventsMax = 300'000;  // a run that ends has some thousand

std::vector<int> FirstIndices(int count) {
  std::vector<int> indices;
  for (int i = 0; i < count; ++i) indices.push_back(i);
  return indices;
}

FaultInjector::Options InjectorOptions(const SeedOptions& options) {
  FaultInjector::Options made;
  made.faults = options.faults;
  made.lease = absl::Seconds(1);
  return made;
}

TaskId TaskOf(const std::string& host) {
  TaskId task;
  task.role = RoleOf(host) == "ps" ? Role::kPs : Role::kWorker;
  COHORT_CHECK(absl::SimpleAtoi(host.substr(host.find(':') + 1), &task.index),
               "a host of this run");
  return task;
}

}  // namespace

SeedRun::SeedRun(uint64_t seed, const SeedOptions& options)
    : seed_(seed),
      options_(options),
      sim_(seed),
      network_(sim_),
      injector_(seed, InjectorOptions(options), *this),
      plan_(SeedPlan::Draw(seed, {injector_.Wants(Phase::kFence), injector_.WantsTakeover()})),
      checker_(disk_, {kDirectory, !plan_.private_disks, plan_.steps_ahead_max,
                       [this](uint64_t coordinator) { return ClosuresOf(coordinator); },
                       [this](uint64_t coordinator, uint64_t closure) {
                         const auto& entries = LifeOf(coordinator)->log().entries();
                         return plan_.AmountOf(entries.at(closure).work);
                       },
                       [this](const std::string& what) { Violate(what); }}),
      runs_({[this](uint64_t epoch, uint64_t session) { return checker_.IsFenced(epoch, session); },
             [this](const std::string& what) { Violate(what); }}),
      actors_(sim_) {
  if (options_.events_kept > 0) {
    sim_.SetTraceSink([this](absl::string_view event) {
      result_.last_events.emplace_back(event);
      if (result_.last_events.size() > options_.events_kept) result_.last_events.pop_front();
    });
  }
  network_.SetWatcher(this);
  tasks_ = std::make_unique<TestCluster>(TaskOptions());
}

SeedRun::~SeedRun() { network_.SetWatcher(nullptr); }

void SeedRun::Note(const std::string& event) { sim_.Trace(event); }

void SeedRun::Violate(const std::string& what) {
  Note(absl::StrCat("VIOLATION ", what));
  if (result_.violations.size() < 10) result_.violations.push_back(what);
}

World SeedRun::WorldOf(const std::string& host) {
  auto process = std::make_unique<Process>();
  process->transport = network_.TransportOf(host);
  FileSystem* disk = &disk_;
  if (plan_.private_disks && RoleOf(host) != "chief") {
    process->own_disk = std::make_unique<MemoryFileSystem>();
    disk = process->own_disk.get();
  }
  process->files = std::make_unique<SimFiles>(*disk, *this, host);
  process->executor = std::make_unique<BusyExecutor>(
      sim_, RoleOf(host) == "ps" ? plan_.ps_delay : absl::ZeroDuration());
  present_[host] = process.get();
  const World world{sim_, *process->executor, *process->files, *process->transport};
  processes_.push_back(std::move(process));
  return world;
}

TestCluster::Options SeedRun::TaskOptions() {
  TestCluster::Options options;
  options.ps = FirstIndices(plan_.ps);
  options.workers = FirstIndices(plan_.workers);
  // Who finds an empty disk has forgotten.
  if (!plan_.private_disks) options.grant_directory = "/";
  options.world_of = [this](const std::string& host) { return WorldOf(host); };
  options.on_start_failed = [this](TaskId task) { OnStartFailed(task); };
  return options;
}

SimFate SeedRun::OnRequest(const SimMessage& message) {
  checker_.OnRequest(message);
  runs_.OnRequest(message);
  return injector_.OnRequest(message);
}

void SeedRun::OnArrival(const SimMessage& message) {
  checker_.OnArrival(message);
  runs_.OnArrival(message);
  injector_.OnArrival(message);
}

SimFate SeedRun::OnResponse(const SimMessage& message) {
  checker_.OnResponse(message);
  runs_.OnResponse(message);
  return injector_.OnResponse(message);
}

absl::Status SeedRun::OnFileCall(const std::string& host, const FileCall& call, size_t* written) {
  if (tasks_ == nullptr) return absl::OkStatus();  // a world without faults until all have begun
  return injector_.OnFileCall(host, call, written);
}

void SeedRun::OnFileDone(const std::string& host, const FileCall& call) {
  checker_.OnFileDone(host, call);
}

std::vector<std::string> SeedRun::Alive(absl::string_view role) const {
  std::vector<std::string> hosts;
  for (const auto& [host, process] : present_) {
    if (RoleOf(host) == role && down_.count(host) == 0) hosts.push_back(host);
  }
  return hosts;
}

void SeedRun::Kill(const std::string& host) {
  if (!down_.insert(host).second) return;
  network_.Kill(host);
  present_.at(host)->files->Kill();
  checker_.OnKill(host);
  // At once, before what it left on its way has ended, or after a while.
  const uint64_t back_ms = 1 + sim_.rng().Below(sim_.rng().Below(3) == 0 ? 20 : 1500);
  const absl::Time back = sim_.Now() + absl::Milliseconds(back_ms);
  if (RoleOf(host) == "chief") {
    for (const auto& life : lives_) {
      if (life->host() == host) life->Kill();
    }
    ++starts_ahead_;
    sim_.CallAt(back, [this] {
      --starts_ahead_;
      StartReplacement();
    });
    return;
  }
  const TaskId task = TaskOf(host);
  // Not here: one of its handlers may be running.
  sim_.Run([this, task] { tasks_->Kill(task); });
  sim_.CallAt(back, [this, task] { StartTask(task); });
}

void SeedRun::StartTask(TaskId task) {
  down_.erase(task.ToString());
  tasks_->Start(task);
}

// It is started again, as a supervisor does it.
void SeedRun::OnStartFailed(TaskId task) {
  Note(absl::StrCat(task.ToString(), " cannot read what it has granted"));
  down_.insert(task.ToString());
  sim_.CallAt(sim_.Now() + kStartAgain, [this, task] { StartTask(task); });
}

void SeedRun::Cut(const std::string& from, const std::string& to, bool both_ways,
                  absl::Duration duration) {
  Note(absl::StrCat("cut ", from, both_ways ? " <-> " : " -> ", to, " for ",
                    absl::FormatDuration(duration)));
  if (both_ways) {
    network_.Cut(from, to);
  } else {
    network_.CutOneWay(from, to);
  }
  sim_.CallAt(sim_.Now() + duration, [this, from, to] { network_.Heal(from, to); });
}

void SeedRun::Isolate(const std::string& host, absl::Duration duration) {
  for (const auto& [other, process] : present_) {
    if (other != host) Cut(host, other, true, duration);
  }
}

void SeedRun::TakeOver() {
  if (lives_.size() < kLivesMax) StartReplacement();
}

void SeedRun::StartReplacement() {
  if (finisher_ != nullptr) return;
  StartCoordinator();
  if (lives_.size() >= kLivesMax || sim_.rng().Below(4) != 0) return;
  sim_.CallAt(sim_.Now() + absl::Microseconds(sim_.rng().Below(3000)), [this] {
    if (finisher_ == nullptr) StartCoordinator();
  });
}

void SeedRun::CrashDisk() {
  Note("the disk loses power");
  disk_.Crash(sim_.rng().Below(2) == 0 ? CrashLoss::kUnsyncedBytes
                                       : CrashLoss::kUnsyncedBytesAndNames);
  checker_.CheckVisible();
}

void SeedRun::StartCoordinator() {
  const uint64_t incarnation = kFirstIncarnation + lives_.size();
  CoordinatorLife::Options options;
  options.host = absl::StrCat("chief:", lives_.size());
  options.incarnation = incarnation;
  options.directory = kDirectory;
  options.cluster = tasks_->spec();
  options.violate = [this](const std::string& what) { Violate(what); };
  options.note = [this](const std::string& event) { Note(event); };
  options.disk_was_hit = [this] { return injector_.HitTheDisk(); };
  options.on_all_done = [this] { StopFaults(); };
  options.check = [this](CoordinatorLife& life, const std::vector<Tensor>& values) {
    return CheckEnd(life, values);
  };
  Note(absl::StrCat("start ", options.host));
  const World world = WorldOf(options.host);
  lives_.push_back(
      std::make_unique<CoordinatorLife>(world, actors_, plan_, std::move(options)));
  actors_.Spawn([life = lives_.back().get()] { life->Run(); });
}

CoordinatorLife* SeedRun::LifeOf(uint64_t incarnation) const {
  const size_t index = incarnation - kFirstIncarnation;
  return index < lives_.size() ? lives_[index].get() : nullptr;
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

bool SeedRun::IsRunning() const {
  return std::any_of(lives_.begin(), lives_.end(), [](const auto& life) {
    return life->end() == CoordinatorLife::End::kRunning;
  });
}

bool SeedRun::IsOver() {
  for (const auto& life : lives_) life->CheckBounds();
  CheckLosers();
  if (sim_.events_run() > kEventsMax) {
    Violate(absl::StrCat("is not over after ", sim_.events_run(), " events"));
  }
  if (!result_.violations.empty()) return true;
  if (finisher_ != nullptr && finisher_->end() != CoordinatorLife::End::kRunning) return true;
  // Of several that began at one time all may have lost; somebody starts the next.
  if (!IsRunning() && starts_ahead_ == 0) StartCoordinator();
  return false;
}

void SeedRun::CheckLosers() {
  for (const auto& life : lives_) {
    const CoordinatorLife::End end = life->end();
    if (end == CoordinatorLife::End::kRunning || !checked_.insert(life.get()).second) continue;
    const std::string text = life->error().ToString();
    // A disk that fails may end a coordinator as it starts; another one is started.
    const bool by_disk = life->IsByDisk(life->error());
    if (end == CoordinatorLife::End::kFailed && !by_disk) {
      Violate(absl::StrCat(life->host(), " ended with ", text));
    }
    if (end != CoordinatorLife::End::kSuperseded) continue;
    const bool names_winner = std::any_of(lives_.begin(), lives_.end(), [&](const auto& other) {
      return other.get() != life.get() &&
             absl::StrContains(text, absl::StrCat("by coordinator incarnation ",
                                                  other->incarnation()));
    });
    if (!names_winner) Violate(absl::StrCat(life->host(), " does not name its winner: ", text));
  }
}

void SeedRun::StopFaults() {
  injector_.Stop();
  network_.HealAll();
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
    return std::none_of(lives_.begin(), lives_.end(), [this](const auto& life) {
      return life->end() == CoordinatorLife::End::kRunning && checker_.WasGranted(
          life->incarnation());
    });
  };
  for (const auto& life : lives_) {
    if (!checker_.WasGranted(life->incarnation())) life->Kill();
  }
  const bool ended = actors_.RunUntil(others_end, kEndTimeMax);
  for (const auto& life : lives_) {
    if (life->end() == CoordinatorLife::End::kRunning) life->GiveUp();
  }
  actors_.RunUntil([this] { return !IsRunning(); }, kEndTimeMax);
  for (const auto& life : lives_) {
    if (!ended && result_.violations.empty() &&
        life->end() != CoordinatorLife::End::kFinished) {
      Violate(absl::StrCat("was taken over and did not end: ", life->host(), ": ",
                           life->error().ToString()));
    }
  }
  if (result_.violations.empty()) CheckLosers();
}

SeedResult SeedRun::Run() {
  const absl::Time start = sim_.Now();
  StartCoordinator();
  if (!actors_.RunUntil([this] { return IsOver(); }, kRunTimeMax)) {
    for (const auto& life : lives_) {
      if (life->end() == CoordinatorLife::End::kRunning) life->GiveUp();
    }
    actors_.RunUntil([this] { return !IsRunning(); }, absl::Seconds(1));
    for (const auto& life : lives_) {
      Violate(absl::StrCat("did not end: ", life->host(), ": ", life->error().ToString()));
    }
  }
  EndLives();
  checker_.CheckVisible();
  result_.plan = absl::StrCat(plan_.Describe(), "; ", injector_.Describe());
  result_.simulated = sim_.Now() - start;
  result_.trace_hash = sim_.trace_hash();
  result_.events = sim_.events_run();
  result_.table = injector_.table();
  return std::move(result_);
}

SeedResult RunSeed(uint64_t seed, const SeedOptions& options) {
  if (options.job == SeedJob::kGangs) return GangRun(seed, options).Run();
  return SeedRun(seed, options).Run();
}

}  // namespace cohort
