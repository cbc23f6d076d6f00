#include "tests/sim/gang_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

namespace {

constexpr char kDirectory[] = "/recovery";
constexpr absl::Duration kRunTimeMax = absl::Minutes(10);  // simulated
constexpr absl::Duration kEndTimeMax = absl::Minutes(3);
constexpr absl::Duration kQuiet = absl::Minutes(1);
constexpr uint64_t kFirstIncarnation = 1000;
constexpr size_t kLivesMax = 6;
constexpr uint64_t kEventsMax = 1'000'000;  // a run that ends has some ten thousand
// There are some ten messages for each that a counter's step has.
constexpr double kNoise = 0.0015;

FaultInjector::Options InjectorOptions(const SeedOptions& options, absl::Duration lease) {
  FaultInjector::Options made;
  made.job = SeedJob::kGangs;
  made.faults = options.faults;
  made.lease = lease;
  made.noise = kNoise;
  return made;
}

SimNetwork::Options NetworkOptions() {
  SimNetwork::Options options;
  options.detection_max = absl::Seconds(5);
  return options;
}

TaskId TaskOf(const std::string& host) {
  TaskId task;
  task.role = Role::kWorker;
  COHORT_CHECK(absl::SimpleAtoi(host.substr(host.find(':') + 1), &task.index),
               "a host of this run");
  return task;
}

}  // namespace

GangRun::GangRun(uint64_t seed, const SeedOptions& options)
    : options_(options),
      sim_(seed),
      network_(sim_, NetworkOptions()),
      injector_(seed, InjectorOptions(options, absl::Seconds(1)), *this),
      plan_(GangPlan::Draw(seed)),
      checker_(sim_, plan_, [this](const std::string& what) { Violate(what); }),
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

// What tasks leave on their executors, communicators above all, ends before these do.
GangRun::~GangRun() {
  network_.SetWatcher(nullptr);
  lives_.clear();
  tasks_.reset();
  sim_.RunFor(kQuiet);
}

void GangRun::Violate(const std::string& what) {
  Note(absl::StrCat("VIOLATION ", what));
  if (result_.violations.size() < 10) result_.violations.push_back(what);
}

World GangRun::WorldOf(const std::string& host) {
  auto process = std::make_unique<Process>();
  process->transport = network_.TransportOf(host);
  FileSystem* disk = &disk_;
  const bool worker = RoleOf(host) == "worker";
  if (plan_.private_disks && worker) {
    process->own_disk = std::make_unique<MemoryFileSystem>();
    disk = process->own_disk.get();
  }
  process->executor = std::make_unique<StoppingExecutor>(
      sim_, worker ? plan_.worker_delay : absl::ZeroDuration());
  present_[host] = process.get();
  const World world{sim_, *process->executor, *disk, *process->transport};
  processes_.push_back(std::move(process));
  return world;
}

TestCluster::Options GangRun::TaskOptions() {
  TestCluster::Options options;
  options.ps.clear();
  options.workers.clear();
  for (int i = 0; i < plan_.workers; ++i) options.workers.push_back(i);
  // Who finds an empty disk has forgotten.
  if (!plan_.private_disks) options.grant_directory = "/";
  options.world_of = [this](const std::string& host) { return WorldOf(host); };
  return options;
}

absl::Duration GangRun::DelayByStop(const SimMessage& message) const {
  absl::Duration delay;
  for (const std::string* const host : {&message.from, &message.to}) {
    const auto until = stopped_until_.find(*host);
    if (until != stopped_until_.end()) delay = std::max(delay, until->second - sim_.Now());
  }
  return delay;
}

SimFate GangRun::OnRequest(const SimMessage& message) {
  SimFate fate = injector_.OnRequest(message);
  fate.delay += DelayByStop(message);
  checker_.OnRequest(message, fate);
  return fate;
}

void GangRun::OnArrival(const SimMessage& message) {
  checker_.OnArrival(message);
  injector_.OnArrival(message);
}

SimFate GangRun::OnResponse(const SimMessage& message) {
  SimFate fate = injector_.OnResponse(message);
  fate.delay += DelayByStop(message);
  if (down_.count(message.to) == 0) checker_.OnResponse(message, fate);
  return fate;
}

std::vector<std::string> GangRun::Alive(absl::string_view role) const {
  std::vector<std::string> hosts;
  for (const auto& [host, process] : present_) {
    if (RoleOf(host) == role && down_.count(host) == 0) hosts.push_back(host);
  }
  return hosts;
}

void GangRun::Kill(const std::string& host) {
  if (!down_.insert(host).second) return;
  Note(absl::StrCat("kill ", host));
  network_.Kill(host);
  checker_.OnKill(host);
  stopped_until_.erase(host);
  // At once, before what it left on its way has ended, or after a while.
  const uint64_t back_ms = 1 + sim_.rng().Below(sim_.rng().Below(3) == 0 ? 20 : 3000);
  const absl::Time back = sim_.Now() + absl::Milliseconds(back_ms);
  if (RoleOf(host) == "chief") {
    for (const auto& life : lives_) {
      if (life->host() == host) life->Kill();
    }
    ++starts_ahead_;
    sim_.CallAt(back, [this] {
      --starts_ahead_;
      StartCoordinator();
    });
    return;
  }
  const TaskId task = TaskOf(host);
  // Not here: one of its handlers may be running.
  sim_.Run([this, task] { tasks_->Kill(task); });
  sim_.CallAt(back, [this, task] {
    down_.erase(task.ToString());
    tasks_->Start(task);
  });
}

void GangRun::Cut(const std::string& from, const std::string& to, bool both_ways,
                  absl::Duration duration) {
  Note(absl::StrCat("cut ", from, both_ways ? " <-> " : " -> ", to, " for ",
                    absl::FormatDuration(duration)));
  checker_.OnDisturbance(duration);
  if (both_ways) {
    network_.Cut(from, to);
  } else {
    network_.CutOneWay(from, to);
  }
  sim_.CallAt(sim_.Now() + duration, [this, from, to] { network_.Heal(from, to); });
}

void GangRun::Isolate(const std::string& host, absl::Duration duration) {
  for (const auto& [other, process] : present_) {
    if (other != host) Cut(host, other, true, duration);
  }
}

void GangRun::TakeOver() {
  if (lives_.size() < kLivesMax) StartCoordinator();
}

void GangRun::Stop(const std::string& host, absl::Duration duration) {
  Note(absl::StrCat("stop ", host, " for ", absl::FormatDuration(duration)));
  checker_.OnDisturbance(duration);
  present_.at(host)->executor->Stop(duration);
  absl::Time& until = stopped_until_[host];
  until = std::max(until, sim_.Now() + duration);
}

void GangRun::StartCoordinator() {
  if (all_done_ && IsRunning()) return;
  GangLife::Options options;
  options.host = absl::StrCat("chief:", lives_.size());
  options.incarnation = kFirstIncarnation + lives_.size();
  options.directory = kDirectory;
  options.cluster = tasks_->spec();
  options.violate = [this](const std::string& what) { Violate(what); };
  options.note = [this](const std::string& event) { Note(event); };
  options.on_all_done = [this] { StopFaults(); };
  Note(absl::StrCat("start ", options.host));
  const World world = WorldOf(options.host);
  lives_.push_back(std::make_unique<GangLife>(world, actors_, plan_, std::move(options)));
  actors_.Spawn([life = lives_.back().get()] { life->Run(); });
}

bool GangRun::IsRunning() const {
  return std::any_of(lives_.begin(), lives_.end(), [](const auto& life) {
    return life->end() == GangLife::End::kRunning;
  });
}

void GangRun::StopFaults() {
  all_done_ = true;
  injector_.Stop();
  network_.HealAll();
}

// Over when one has finished, and all others have ended.
bool GangRun::IsOver() {
  for (const auto& life : lives_) life->CheckBounds();
  CheckEnds();
  if (sim_.events_run() > kEventsMax) {
    Violate(absl::StrCat("is not over after ", sim_.events_run(), " events"));
  }
  if (!result_.violations.empty()) return true;
  const bool finished = std::any_of(lives_.begin(), lives_.end(), [](const auto& life) {
    return life->end() == GangLife::End::kFinished;
  });
  if (IsRunning()) return false;
  if (finished) return true;
  if (starts_ahead_ == 0) StartCoordinator();
  return false;
}

void GangRun::CheckEnds() {
  for (const auto& life : lives_) {
    const GangLife::End end = life->end();
    if (end == GangLife::End::kRunning || !checked_.insert(life.get()).second) continue;
    const std::string text = life->error().ToString();
    if (end == GangLife::End::kFailed) Violate(absl::StrCat(life->host(), " ended with ", text));
    if (end != GangLife::End::kSuperseded) continue;
    const bool names_winner = std::any_of(lives_.begin(), lives_.end(), [&](const auto& other) {
      return other.get() != life.get() &&
             absl::StrContains(text, absl::StrCat("by coordinator incarnation ",
                                                  other->incarnation()));
    });
    if (!names_winner) Violate(absl::StrCat(life->host(), " does not name its winner: ", text));
  }
}

SeedResult GangRun::Run() {
  const absl::Time start = sim_.Now();
  StartCoordinator();
  if (!actors_.RunUntil([this] { return IsOver(); }, kRunTimeMax)) {
    for (const auto& life : lives_) {
      if (life->end() != GangLife::End::kRunning) continue;
      Violate(absl::StrCat("did not end: ", life->DescribeWait()));
    }
  }
  result_.simulated = sim_.Now() - start;
  StopFaults();
  for (const auto& life : lives_) life->GiveUp();
  actors_.RunUntil([this] { return !IsRunning(); }, kEndTimeMax);
  actors_.RunUntil([] { return false; }, kQuiet);
  if (result_.ok()) checker_.CheckEnd();
  const GangChecker::Counts& counts = checker_.counts();
  result_.plan = absl::StrCat(plan_.Describe(), "; ", injector_.Describe(), "; answers=",
                              counts.answers, " attempts=", counts.attempts,
                              " causes=", counts.causes, " lives=", lives_.size());
  result_.trace_hash = sim_.trace_hash();
  result_.events = sim_.events_run();
  result_.table = injector_.table();
  return std::move(result_);
}

}  // namespace cohort
