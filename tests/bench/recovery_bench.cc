// Seconds without progress after kill -9 of a worker, a parameter server and the coordinator, real
// processes that count increments. The coordinator is a process of its own that says how far it is.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/counter_life.h"
#include "tests/support/temp_directory.h"

namespace cohort::bench {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kPs = 2;
constexpr int kWorkers = 3;

double Now() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

// What the coordinator says each time that it is further than before. The clock is the machine's,
// the same in both processes.
struct Said {
  double time = 0;
  uint64_t done = 0;  // and done again
  uint64_t recoveries = 0;
};

void Say(const ClusterCoordinator& coordinator, const CounterLife& counter) {
  BlockingWaiter waiter;
  const Event never;
  uint64_t last = 0;
  while (true) {
    // A step that runs again after a restore is applied as well.
    const uint64_t done = counter.done() + coordinator.stats().replayed;
    if (done != last) {
      std::printf("%.6f %llu %llu\n", Now(), static_cast<unsigned long long>(done),
                  static_cast<unsigned long long>(coordinator.stats().recoveries));
      std::fflush(stdout);
      last = done;
    }
    waiter.Wait(never, absl::Milliseconds(1));
  }
}

absl::Status RunCoordinator(const Options& options) {
  LocalRun::Options local;
  local.ps = kPs;
  local.workers = kWorkers;
  local.closures_in_flight = 4;
  local.state_directory = options.Text("state_dir");
  local.recovery_interval = absl::Milliseconds(500);
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  CounterLife counter(run->coordinator(), std::numeric_limits<uint64_t>::max() - 1);
  RETURN_IF_ERROR(counter.Begin());
  std::thread([&] { Say(run->coordinator(), counter); }).detach();
  std::thread([] {
    WaitForStarter();
    kill(getpid(), SIGKILL);  // as everything here ends
  }).detach();
  return counter.ScheduleWhatIsLeft();
}

absl::StatusOr<Said> Next(Peer& coordinator) {
  ASSIGN_OR_RETURN(const std::string line, coordinator.ReadLine());
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  Said said;
  if (words.size() != 3 || !absl::SimpleAtod(words[0], &said.time) ||
      !absl::SimpleAtoi(words[1], &said.done) || !absl::SimpleAtoi(words[2], &said.recoveries)) {
    return absl::DataLossError(absl::StrCat("the coordinator said '", line, "'"));
  }
  return said;
}

// Reads on for so long, measured by what is said.
absl::StatusOr<Said> Warm(Peer& coordinator, double seconds) {
  ASSIGN_OR_RETURN(Said said, Next(coordinator));
  for (const double until = said.time + seconds; said.time < until;) {
    ASSIGN_OR_RETURN(said, Next(coordinator));
  }
  return said;
}

absl::Status Kill(World world, const std::string& state, const std::string& task) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(world.files, JoinPath(state, absl::StrCat(task, ".process"))));
  const auto record = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!record.contains("pid")) return absl::DataLossError(absl::StrCat("no pid of ", task));
  kill(record["pid"], SIGKILL);
  return absl::OkStatus();
}

// The longest pause from the kill of a worker until two seconds later.
absl::StatusOr<double> WorkerLoss(Peer& coordinator, World world, const std::string& state) {
  ASSIGN_OR_RETURN(Said before, Warm(coordinator, 1));
  RETURN_IF_ERROR(Kill(world, state, "worker-1"));
  const double killed = Now();
  double longest = 0;
  while (before.time < killed + 2) {
    ASSIGN_OR_RETURN(const Said said, Next(coordinator));
    if (said.time > killed) longest = std::max(longest, said.time - std::max(before.time, killed));
    before = said;
  }
  return longest;
}

// From the kill of a ps to the first closure that is done after the restore.
absl::StatusOr<double> PsLoss(Peer& coordinator, World world, const std::string& state) {
  ASSIGN_OR_RETURN(const Said before, Warm(coordinator, 1));
  RETURN_IF_ERROR(Kill(world, state, "ps-1"));
  const double killed = Now();
  while (true) {
    ASSIGN_OR_RETURN(const Said said, Next(coordinator));
    if (said.recoveries > before.recoveries) return said.time - killed;
  }
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  // Tasks of a coordinator that was killed are this process's children from then on.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RealWorld world(1);
  std::vector<double> worker, ps, restart;
  for (int i = 0; i < repeats; ++i) {
    const TempDirectory directory("cohort-bench");
    const std::vector<std::string> command = {"recovery_coordinator", "--state_dir",
                                              directory.path()};
    {
      ASSIGN_OR_RETURN(Peer coordinator, Peer::Start(command));
      ASSIGN_OR_RETURN(worker.emplace_back(),
                       WorkerLoss(coordinator, world.world(), directory.path()));
      ASSIGN_OR_RETURN(ps.emplace_back(), PsLoss(coordinator, world.world(), directory.path()));
      RETURN_IF_ERROR(Warm(coordinator, 1).status());
    }  // ends with SIGKILL
    const double started = Now();
    ASSIGN_OR_RETURN(Peer coordinator, Peer::Start(command));
    ASSIGN_OR_RETURN(const Said first, Next(coordinator));
    restart.push_back(first.time - started);
    for (int task = 0; task < kPs; ++task) {
      Kill(world.world(), directory.path(), absl::StrCat("ps-", task)).IgnoreError();
    }
    for (int task = 0; task < kWorkers; ++task) {
      Kill(world.world(), directory.path(), absl::StrCat("worker-", task)).IgnoreError();
    }
  }
  const std::map<std::string, double> run = {{"repeats", static_cast<double>(repeats)}};
  Print({"recovery", "worker/longest_pause", Median(worker), "s", "", 0, run});
  Print({"recovery", "ps/kill_to_next_step", Median(ps), "s", "bound", 3, run});
  Print({"recovery", "coordinator/restart_to_next_step", Median(restart), "s", "bound", 3, run});
  return absl::OkStatus();
}

}  // namespace

Command RecoveryBench() {
  return {"recovery",
          "seconds without progress after kill -9 of a worker, a ps and the coordinator",
          {{"repeats", "5", "of each; the medians are printed"}},
          Run};
}

Command RecoveryCoordinator() {
  return {"recovery_coordinator", "", {{"state_dir", "", "of the local tasks"}}, RunCoordinator};
}

}  // namespace cohort::bench
