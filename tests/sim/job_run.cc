#include "tests/sim/job_run.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

namespace {

constexpr uint64_t kFirstIncarnation = 1000;
constexpr uint64_t kAtOnceMsMax = 20;  // before what a process left on its way has ended
constexpr size_t kViolationsMax = 10;

TaskId TaskOf(const std::string& host) {
  TaskId task;
  task.role = RoleOf(host) == "ps" ? Role::kPs : Role::kWorker;
  COHORT_CHECK(absl::SimpleAtoi(host.substr(host.find(':') + 1), &task.index),
               "a host of this run");
  return task;
}

std::vector<int> FirstIndices(int count) {
  std::vector<int> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

}  // namespace

JobRun::JobRun(uint64_t seed, Options options)
    : options_(std::move(options)),
      sim_(seed),
      network_(sim_, options_.network),
      injector_(seed, options_.faults, *this),
      actors_(sim_) {
  if (options_.events_kept == 0) return;
  sim_.SetTraceSink([this](absl::string_view event) {
    result_.last_events.emplace_back(event);
    if (result_.last_events.size() > options_.events_kept) result_.last_events.pop_front();
  });
}

void JobRun::StartTasks() {
  network_.SetWatcher(this);
  if (options_.faults.part) {
    const JobPlan& plan = job_plan();
    // Who is killed may be away for a while, and cannot stand in for another.
    const bool kills = injector_.Kills();
    progress_.emplace(ProgressCheck::Options{
        plan.lease, plan.workers - (kills ? 1 : 0), workers_min(), plan.ps,
        kills ? absl::Milliseconds(options_.absent_ms_max) : absl::ZeroDuration()});
  }
  TestCluster::Options options;
  options.ps = FirstIndices(job_plan().ps);
  options.workers = FirstIndices(job_plan().workers);
  options.call_bytes_max = job_plan().call_bytes_max;
  // Who finds an empty disk has forgotten.
  if (!job_plan().private_disks) options.grant_directory = "/";
  options.world_of = [this](const std::string& host) { return WorldOf(host); };
  options.on_start_failed = [this](TaskId task) { OnStartFailed(task); };
  tasks_ = std::make_unique<TestCluster>(std::move(options));
}

void JobRun::EndTasks() {
  network_.SetWatcher(nullptr);
  lives_.clear();
  tasks_.reset();
}

void JobRun::OnStartFailed(TaskId task) {
  Violate(absl::StrCat(task.ToString(), " does not start, and no fault keeps it from that"));
}

void JobRun::Violate(const std::string& what) {
  Note(absl::StrCat("VIOLATION ", what));
  if (result_.violations.size() < kViolationsMax) result_.violations.push_back(what);
}

World JobRun::WorldOf(const std::string& host) {
  auto process = std::make_unique<Process>();
  process->transport = network_.TransportOf(host);
  FileSystem* files = &disk_;
  if (job_plan().private_disks && RoleOf(host) != "chief") {
    process->own_disk = std::make_unique<MemoryFileSystem>();
    files = process->own_disk.get();
  }
  const Machine machine = MachineOf(host);
  if (machine.files != nullptr) {
    process->files = std::make_unique<SimFiles>(*files, *machine.files, host);
    files = process->files.get();
  }
  process->executor = std::make_unique<StoppingExecutor>(sim_, machine.delay);
  present_[host] = process.get();
  const World world{sim_, *process->executor, *files, *process->transport};
  processes_.push_back(std::move(process));
  return world;
}

std::vector<std::string> JobRun::Alive(absl::string_view role) const {
  std::vector<std::string> hosts;
  for (const auto& [host, process] : present_) {
    if (RoleOf(host) == role && !IsDown(host)) hosts.push_back(host);
  }
  return hosts;
}

void JobRun::Kill(const std::string& host) {
  if (!down_.insert(host).second) return;
  OnKill(host);
  network_.Kill(host);
  if (SimFiles* const files = ProcessOf(host).files.get()) files->Kill();
  // At once, or after a while.
  const bool at_once = sim_.rng().Below(3) == 0;
  const uint64_t absent_ms_max = at_once ? kAtOnceMsMax : options_.absent_ms_max;
  const absl::Time back = sim_.Now() + absl::Milliseconds(1 + sim_.rng().Below(absent_ms_max));
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

void JobRun::StartTask(TaskId task) {
  down_.erase(task.ToString());
  tasks_->Start(task);
}

void JobRun::Cut(const std::string& from, const std::string& to, bool both_ways,
                 absl::Duration duration) {
  Note(absl::StrCat("cut ", from, both_ways ? " <-> " : " -> ", to, " for ",
                    absl::FormatDuration(duration)));
  OnDisturbance(duration);
  if (progress_.has_value()) progress_->OnCut(from, to, sim_.Now(), sim_.Now() + duration);
  if (both_ways) {
    network_.Cut(from, to);
  } else {
    network_.CutOneWay(from, to);
  }
  sim_.CallAt(sim_.Now() + duration, [this, from, to] { network_.Heal(from, to); });
}

void JobRun::Isolate(const std::string& host, absl::Duration duration) {
  for (const auto& [other, process] : present_) {
    if (other != host) Cut(host, other, true, duration);
  }
}

void JobRun::TakeOver() {
  if (lives_.size() < options_.lives_max) StartReplacement();
}

void JobRun::StartCoordinator() {
  JobLife::Options options;
  options.host = absl::StrCat("chief:", lives_.size());
  options.incarnation = kFirstIncarnation + lives_.size();
  options.directory = kRecoveryDirectory;
  options.cluster = tasks_->spec();
  options.violate = [this](const std::string& what) { Violate(what); };
  options.note = [this](const std::string& event) { Note(event); };
  options.on_all_done = [this] { StopFaults(); };
  Note(absl::StrCat("start ", options.host));
  const World world = WorldOf(options.host);
  lives_.push_back(MakeLife(world, std::move(options)));
  actors_.Spawn([life = lives_.back().get()] { life->Run(); });
}

bool JobRun::IsRunning() const {
  return std::any_of(lives_.begin(), lives_.end(),
                     [](const auto& life) { return life->end() == JobLife::End::kRunning; });
}

void JobRun::StopFaults() {
  injector_.Stop();
  network_.HealAll();
  progress_.reset();
}

void JobRun::CheckProgress() {
  if (lives_.empty() || !progress_.has_value()) return;
  const JobLife& life = *lives_.back();
  const std::string wrong = progress_->Check(sim_.Now(), life.NumEnded());
  if (!wrong.empty()) Violate(absl::StrCat(wrong, ": ", life.DescribeWait()));
  if (!progress_->MustHearOfAll() || injector_.Kills()) return;
  const ClusterSpec spec = tasks_->spec();
  for (const auto& [task, address] : spec.tasks()) {
    if (task.role == Role::kChief || life.IsHeardOf(task)) continue;
    Violate(absl::StrCat(task.ToString(), " is suspected, and the coordinator reaches it"));
  }
}

bool JobRun::IsOver() {
  for (const auto& life : lives_) life->CheckBounds();
  CheckProgress();
  CheckEnds();
  if (sim_.events_run() > options_.events_max) {
    Violate(absl::StrCat("is not over after ", sim_.events_run(), " events"));
  }
  return HasViolations() || IsDone();
}

void JobRun::CheckEnds() {
  for (const auto& life : lives_) {
    const JobLife::End end = life->end();
    if (end == JobLife::End::kRunning || !checked_.insert(life.get()).second) continue;
    const std::string text = life->error().ToString();
    if (end == JobLife::End::kFailed && !life->MayEndWith(life->error())) {
      Violate(absl::StrCat(life->host(), " ended with ", text));
    }
    if (end != JobLife::End::kSuperseded) continue;
    const bool names_winner = std::any_of(lives_.begin(), lives_.end(), [&](const auto& other) {
      return other.get() != life.get() &&
             absl::StrContains(text,
                               absl::StrCat("by coordinator incarnation ", other->incarnation()));
    });
    if (!names_winner) Violate(absl::StrCat(life->host(), " does not name its winner: ", text));
  }
}

SeedResult JobRun::Run() {
  const absl::Time start = sim_.Now();
  StartCoordinator();
  const bool in_time = actors_.RunUntil([this] { return IsOver(); }, options_.time_max);
  result_.simulated = sim_.Now() - start;
  End(in_time);
  result_.plan = Describe();
  result_.trace_hash = sim_.trace_hash();
  result_.events = sim_.events_run();
  result_.table = injector_.table();
  return std::move(result_);
}

}  // namespace cohort
