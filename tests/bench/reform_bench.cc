// The loss of one of three workers in the middle of multi-worker training, real processes: by kill
// -9, how long until the two others train again, how long from the start of the process that
// replaces the lost one until all three train, and what it costs in accuracy; or by SIGSTOP, where
// the lost one comes back by itself when it goes on.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/environment.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/train/trainer.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"

namespace cohort::bench {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kWorkers = 3;
constexpr TaskId kLost{Role::kWorker, 1};
constexpr uint64_t kStepsBefore = 200;  // steps that are done when the worker is killed
constexpr std::chrono::minutes kWaitMax(2);

double Now() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

void Pause(absl::Duration duration) {
  BlockingWaiter waiter;
  const Event never;
  waiter.Wait(never, duration);
}

absl::StatusOr<JobSpec> ReadJob(World world, const Options& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(world.files, options.Text("job")));
  return ParseJob(
      text, options.Text("job"),
      {"strategy.type=multi_worker_mirrored", absl::StrCat("fit.epochs=", options.Text("epochs"))});
}

enum class Loss { kKilled, kSilent };

struct Disturbance {
  double train_again = 0;  // seconds, from the loss until two have done a step
  double join = 0;         // from the start of the new process, or SIGCONT, until three have
};

// Waits for a step that is done on so many workers. Errors: DEADLINE_EXCEEDED.
absl::Status AwaitStep(LocalRun& run, int in_step) {
  const auto end = SteadyClock::now() + kWaitMax;
  uint64_t before = 0;
  bool together = false;
  while (SteadyClock::now() < end) {
    const uint64_t done = run.coordinator().stats().done;
    const bool now_together = run.coordinator().parts().cluster->num_ps() == in_step;
    if (together && now_together && done > before) return absl::OkStatus();
    // A step that was under way when the members changed is not counted.
    if (!together || !now_together) before = done;
    together = now_together;
    Pause(absl::Microseconds(200));
  }
  return absl::DeadlineExceededError(absl::StrCat("no step is done on ", in_step, " workers"));
}

absl::StatusOr<Disturbance> Kill(LocalRun& run, pid_t pid) {
  double started = 0;
  std::atomic<bool> over{false};
  std::thread watch([&] {
    while (!over) {
      const auto pids = run.tasks().pids();
      const auto found = pids.find(kLost);
      if (found != pids.end() && found->second > 0 && found->second != pid) break;
      Pause(absl::Milliseconds(1));
    }
    started = Now();
  });
  kill(pid, SIGKILL);
  const double killed = Now();
  Disturbance disturbance;
  absl::Status status = AwaitStep(run, kWorkers - 1);
  disturbance.train_again = Now() - killed;
  if (status.ok()) status = AwaitStep(run, kWorkers);
  const double joined = Now();
  over = true;
  watch.join();
  disturbance.join = joined - started;
  RETURN_IF_ERROR(status);
  return disturbance;
}

absl::StatusOr<Disturbance> Silence(LocalRun& run, pid_t pid) {
  kill(pid, SIGSTOP);
  const double stopped = Now();
  absl::Status status = AwaitStep(run, kWorkers - 1);
  Disturbance disturbance;
  disturbance.train_again = Now() - stopped;
  kill(pid, SIGCONT);
  const double goes_on = Now();
  if (status.ok()) status = AwaitStep(run, kWorkers);
  disturbance.join = Now() - goes_on;
  RETURN_IF_ERROR(status);
  return disturbance;
}

absl::StatusOr<Disturbance> Disturb(LocalRun& run, Loss loss) {
  while (run.coordinator().stats().done < kStepsBefore) {
    Pause(absl::Milliseconds(1));
  }
  const pid_t pid = run.tasks().pids().at(kLost);
  return loss == Loss::kKilled ? Kill(run, pid) : Silence(run, pid);
}

absl::StatusOr<Loss> LossOf(const Options& options) {
  const std::string name = options.Text("loss");
  if (name == "kill") return Loss::kKilled;
  if (name == "silence") return Loss::kSilent;
  return absl::InvalidArgumentError(
      absl::StrCat("--loss: '", name, "' is neither kill nor silence"));
}

// The accuracy of a whole job, in percent; with `disturbance` it is disturbed.
absl::StatusOr<double> TrainJob(const Options& options, Disturbance* disturbance) {
  ASSIGN_OR_RETURN(const Loss loss, LossOf(options));
  LocalRun::Options local;
  ASSIGN_OR_RETURN(local.transport, TransportKindFromName(options.Text("transport")));
  local.ps = 0;
  local.workers = kWorkers;
  local.mirrored = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  ASSIGN_OR_RETURN(const JobSpec job, ReadJob(run->world(), options));
  MnistSearch search;
  search.data_directory = ProcessEnvironment()("COHORT_DATA_DIR").value_or("");
  search.download = false;
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(run->world(), run->waiter(), job.data, search, job.seed));
  BlockingWaiter waiter;
  Trainer trainer(run->world(), waiter, run->coordinator(), job, sources);
  absl::StatusOr<TrainSummary> summary = absl::UnknownError("not run");
  std::thread training([&] { summary = trainer.Run(); });
  absl::Status disturbed;
  if (disturbance != nullptr) {
    absl::StatusOr<Disturbance> measured = Disturb(*run, loss);
    disturbed = measured.status();
    if (measured.ok()) *disturbance = *measured;
  }
  training.join();
  RETURN_IF_ERROR(summary.status());
  RETURN_IF_ERROR(disturbed);
  for (const auto& [name, value] : summary->test_metrics) {
    if (name == "accuracy") return value * 100;
  }
  return absl::InvalidArgumentError("the job has no metric 'accuracy'");
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const double undisturbed, TrainJob(options, nullptr));
  std::vector<double> train_again, join, accuracy;
  for (int i = 0; i < repeats; ++i) {
    Disturbance disturbance;
    ASSIGN_OR_RETURN(accuracy.emplace_back(), TrainJob(options, &disturbance));
    train_again.push_back(disturbance.train_again);
    join.push_back(disturbance.join);
  }
  const auto with_longest = [&](const std::vector<double>& values) {
    return std::map<std::string, double>{
        {"repeats", static_cast<double>(repeats)},
        {"longest", *std::max_element(values.begin(), values.end())}};
  };
  const std::string transport = options.Text("transport");
  ASSIGN_OR_RETURN(const Loss loss, LossOf(options));
  const char* const lost = loss == Loss::kKilled ? "/kill" : "/stop";
  const char* const back = loss == Loss::kKilled ? "/start" : "/cont";
  Print({"reform", absl::StrCat(transport, lost, "_to_next_step_of_two"), Median(train_again), "s",
         "bound", 5, with_longest(train_again)});
  Print({"reform", absl::StrCat(transport, back, "_to_next_step_of_three"), Median(join), "s",
         "bound", 5, with_longest(join)});
  Print({"reform",
         absl::StrCat(transport, "/accuracy"),
         Median(accuracy),
         "%",
         "undisturbed",
         undisturbed,
         {{"repeats", static_cast<double>(repeats)},
          {"lowest", *std::min_element(accuracy.begin(), accuracy.end())}}});
  return absl::OkStatus();
}

}  // namespace

Command ReformBench() {
  return {"reform",
          "seconds until training goes on after the loss of one of three workers in a group",
          {{"repeats", "5", "of the disturbed run; the medians are printed"},
           {"job", "deploy/jobs/mnist_mlp.json", "job file"},
           {"epochs", "3", "of training"},
           {"loss", "kill", "kill: SIGKILL; silence: SIGSTOP, longer than the lease of 5 s"},
           {"transport", "auto", "auto: through shared memory; tcp or grpc: as frames"}},
          Run};
}

}  // namespace cohort::bench
