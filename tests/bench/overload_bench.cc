// Minutes of more closures than the workers can take: what is done in each second, and the memory
// of every process.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/test_programs.h"

namespace cohort::bench {

namespace {

constexpr int kWorkers = 2;
constexpr int kFewCallers = 4;  // enough to keep the workers busy
constexpr absl::Duration kWindow = absl::Seconds(5);
constexpr int kPeakWindows = 4;

// Resident bytes; 0 when the process is gone.
double ResidentBytes(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(getpagesize());
}

// Threads that schedule without a pause, until the end of its life.
class Callers {
 public:
  Callers(ClusterCoordinator& coordinator, ProgramHandle program, int count)
      : coordinator_(coordinator), program_(std::move(program)) {
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
    while (!stop_) {
      const absl::Status status = coordinator_.Schedule(program_, {}).status();
      if (status.ok()) continue;
      MutexLock lock(mutex_);
      error_ = status;
      return;
    }
  }

  ClusterCoordinator& coordinator_;
  const ProgramHandle program_;
  std::atomic<bool> stop_{false};
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// Of one window.
struct Window {
  double rate = 0;                     // closures per second
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
                                               int callers, int windows) {
  const Callers load(run.coordinator(), program, callers);
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

void PrintFigures(const std::vector<Window>& few, const std::vector<Window>& many, int callers) {
  Figure figure = {"overload", absl::StrCat("rate/callers=", callers), MedianRate(many),
                   "closures/s", absl::StrCat("with ", kFewCallers, " callers"), MedianRate(few)};
  double least = many.front().rate;
  for (const Window& window : many) least = std::min(least, window.rate);
  figure.more = {{"least_of_5_s", least}, {"windows", static_cast<double>(many.size())}};
  Print(figure);
  for (const auto& [process, bytes] : many.front().bytes) {
    Print({"overload", absl::StrCat("resident/", process), MedianBytes(many, process, 0.8, 1) / 1e6,
           "MB, in the last fifth", "in the second fifth",
           MedianBytes(many, process, 0.2, 0.4) / 1e6});
  }
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int seconds, options.Number("seconds"));
  ASSIGN_OR_RETURN(const int callers, options.Number("callers"));
  const int windows = static_cast<int>(absl::Seconds(seconds) / kWindow);
  if (windows < 5) return absl::InvalidArgumentError("--seconds: 25 or more");
  LocalRun::Options local;
  local.ps = 2;
  local.workers = kWorkers;
  local.closures_in_flight = 16;
  local.recovery_interval = absl::Seconds(1);
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  VariableSpec spec;
  spec.name = "counter";
  spec.initializer.set_op("zeros");
  RETURN_IF_ERROR(run->coordinator().Scope(AssignAdd()).CreateVariable(spec).status());
  RETURN_IF_ERROR(run->coordinator().ResumeState().status());
  ASSIGN_OR_RETURN(const ProgramHandle increment,
                   run->coordinator().Register(IncrementProgram("counter")));
  ASSIGN_OR_RETURN(const std::vector<Window> few,
                   WatchUnder(*run, increment, kFewCallers, kPeakWindows));
  ASSIGN_OR_RETURN(const std::vector<Window> many,
                   WatchUnder(*run, increment, callers, windows));
  PrintFigures(few, many, callers);
  return absl::OkStatus();
}

}  // namespace

Command OverloadBench() {
  return {"overload",
          "what is done, and the memory of every process, while callers schedule without a pause",
          {{"seconds", "300", "of overload"}, {"callers", "64", "threads that schedule"}},
          Run};
}

}  // namespace cohort::bench
