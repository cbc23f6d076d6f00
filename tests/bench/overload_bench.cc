// Minutes of more closures than the workers can take: what is done beside the peak, and the memory
// of every process.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/counter.h"

namespace cohort::bench {

namespace {

constexpr int kWorkers = 2;
constexpr int kFewCallers = 4;  // enough to keep the workers busy
constexpr int kFewAhead = 64;   // closures of one of them that are not done
constexpr int kAnyAhead = std::numeric_limits<int>::max();
constexpr int kBatch = 16;  // closures from one that is waited for to the next
// Rates of a shared machine drift within minutes, so overload and peak take turns.
constexpr int kRounds = 5;
constexpr absl::Duration kWindow = absl::Seconds(5);
constexpr int kPeakWindows = 3;  // before each round, and after the last
// So that what waits to be durable is as much in a fast minute as in a slow one.
constexpr int kCheckpointClosures = 16384;

// Resident bytes; 0 when the process is gone.
double ResidentBytes(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(getpagesize());
}

// Threads that schedule, each while about `ahead` of its closures are not done, until the end of
// its life.
class Callers {
 public:
  Callers(ClusterCoordinator& coordinator, ProgramHandle program, int count, int ahead)
      : coordinator_(coordinator), program_(std::move(program)), ahead_(ahead) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Call(); });
  }
  ~Callers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // The first error of a call.
  absl::Status status() const {
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  void Call() {
    std::deque<RemoteValue> awaited;  // every kBatch-th
    for (uint64_t i = 1; !stop_; ++i) {
      absl::StatusOr<RemoteValue> value = coordinator_.Schedule(program_, {});
      if (!value.ok()) {
        MutexLock lock(mutex_);
        error_ = value.status();
        return;
      }
      if (ahead_ == kAnyAhead || i % kBatch != 0) continue;
      awaited.push_back(*std::move(value));
      if (static_cast<int>(awaited.size()) * kBatch < ahead_) continue;
      awaited.front().state().event().WaitFor(absl::InfiniteDuration());
      awaited.pop_front();
    }
  }

  ClusterCoordinator& coordinator_;
  const ProgramHandle program_;
  const int ahead_;
  std::atomic<bool> stop_{false};
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// Of one window.
struct Window {
  double rate = 0;                      // closures per second
  std::map<std::string, double> bytes;  // resident, by process
};

Window Watch(LocalRun& run) {
  const uint64_t done = run.coordinator().stats().done;
  const absl::Time start = run.world().clock.Now();
  const Event never;
  run.waiter().Wait(never, kWindow);
  Window window;
  window.rate = static_cast<double>(run.coordinator().stats().done - done) /
                absl::ToDoubleSeconds(run.world().clock.Now() - start);
  window.bytes["coordinator"] = ResidentBytes(getpid());
  for (const auto& [task, pid] : run.tasks().pids()) {
    window.bytes[absl::StrCat(RoleName(task.role), "-", task.index)] = ResidentBytes(pid);
  }
  return window;
}

absl::StatusOr<std::vector<Window>> WatchUnder(LocalRun& run, const ProgramHandle& program,
                                               int callers, int ahead, int windows) {
  const Callers load(run.coordinator(), program, callers, ahead);
  Watch(run);  // warm
  std::vector<Window> seen;
  for (int i = 0; i < windows; ++i) {
    seen.push_back(Watch(run));
    RETURN_IF_ERROR(load.status());
  }
  return seen;
}

double MedianRate(const std::vector<Window>& windows) {
  std::vector<double> rates;
  for (const Window& window : windows) rates.push_back(window.rate);
  return Median(rates);
}

// Of the windows from the `from`-th to before the `to`-th part of all.
double MedianBytes(const std::vector<Window>& windows, const std::string& process, double from,
                   double to) {
  const auto size = static_cast<double>(windows.size());
  std::vector<double> bytes;
  for (auto i = static_cast<size_t>(size * from); i < static_cast<size_t>(size * to); ++i) {
    bytes.push_back(windows[i].bytes.at(process));
  }
  return Median(bytes);
}

// What is done in each round, beside the peaks before and after it.
void PrintRates(const std::vector<std::vector<Window>>& peaks,
                const std::vector<std::vector<Window>>& rounds, int callers) {
  std::vector<double> rates;
  std::vector<double> around;
  std::vector<double> ratios;
  double least = 1e9;
  for (size_t i = 0; i < rounds.size(); ++i) {
    rates.push_back(MedianRate(rounds[i]));
    around.push_back((MedianRate(peaks[i]) + MedianRate(peaks[i + 1])) / 2);
    ratios.push_back(rates.back() / around.back());
    for (const Window& window : rounds[i]) least = std::min(least, window.rate);
  }
  Figure figure = {"overload",
                   absl::StrCat("rate/callers=", callers),
                   Median(rates),
                   "closures/s",
                   absl::StrCat("with ", kFewCallers, " callers and a short queue"),
                   Median(around)};
  figure.more = {{"median_ratio_of_rounds", Median(ratios)},
                 {"least_of_5_s", least},
                 {"rounds", static_cast<double>(rounds.size())}};
  Print(figure);
}

void PrintMemory(const std::vector<std::vector<Window>>& rounds) {
  std::vector<Window> all;
  for (const std::vector<Window>& round : rounds) all.insert(all.end(), round.begin(), round.end());
  for (const auto& [process, bytes] : all.front().bytes) {
    Print({"overload", absl::StrCat("resident/", process), MedianBytes(all, process, 0.8, 1) / 1e6,
           "MB, in the last fifth", "in the second fifth",
           MedianBytes(all, process, 0.2, 0.4) / 1e6});
  }
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int seconds, options.Number("seconds"));
  ASSIGN_OR_RETURN(const int callers, options.Number("callers"));
  const int windows = static_cast<int>(absl::Seconds(seconds) / kRounds / kWindow);
  if (windows < 1) return absl::InvalidArgumentError("--seconds: 25 or more");
  LocalRun::Options local;
  local.ps = 2;
  local.workers = kWorkers;
  local.closures_in_flight = 16;
  local.recovery_interval = absl::Seconds(1);
  local.recovery_interval_closures = kCheckpointClosures;
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  ASSIGN_OR_RETURN(const Counter counter, MakeCounter(run->coordinator()));
  RETURN_IF_ERROR(run->coordinator().ResumeState().status());
  std::vector<std::vector<Window>> peaks;
  std::vector<std::vector<Window>> rounds;
  for (int round = 0; round <= kRounds; ++round) {
    ASSIGN_OR_RETURN(peaks.emplace_back(),
                     WatchUnder(*run, counter.increment, kFewCallers, kFewAhead, kPeakWindows));
    if (round == kRounds) break;
    ASSIGN_OR_RETURN(rounds.emplace_back(),
                     WatchUnder(*run, counter.increment, callers, kAnyAhead, windows));
  }
  PrintRates(peaks, rounds, callers);
  PrintMemory(rounds);
  return absl::OkStatus();
}

}  // namespace

Command OverloadBench() {
  return {
      "overload",
      "what is done, and the memory of every process, while callers schedule without a pause",
      {{"seconds", "300", "of overload, in 5 rounds"}, {"callers", "64", "threads that schedule"}},
      Run};
}

}  // namespace cohort::bench
