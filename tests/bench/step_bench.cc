// Steps per second of the MNIST MLP over 2 ps and 2 workers as separate processes, beside the
// arithmetic bound that the matrix products alone set. Every step pulls every slice and pushes
// every slice.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cluster/environment.h"
#include "coordinator/train/trainer.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/bench/sgemm_rate.h"

namespace cohort::bench {

namespace {

constexpr int kCores = 2;  // that the bound counts

// Forward 2mnk per layer, twice that again for the gradients of weights and, but for the first
// layer, of inputs.
constexpr double FlopsPerStep(double batch) {
  const double first = 784.0 * 256, second = 256.0 * 128, third = 128.0 * 10;
  return 2 * batch * (2 * first + 3 * second + 3 * third);
}

absl::StatusOr<TrainSummary> TrainOnce(const JobSpec& job, int workers, TransportKind transport) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<LocalRun> run,
      LocalRun::Start({2, workers, static_cast<int>(job.fit.closures_in_flight), transport}));
  MnistSearch search;
  search.data_directory = ProcessEnvironment()("COHORT_DATA_DIR").value_or("");
  search.download = false;
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(run->world(), run->waiter(), job.data, search, job.seed));
  Trainer trainer(run->world(), run->waiter(), run->coordinator(), job, std::move(sources));
  return trainer.Run();
}

// Of the epochs behind the first, in which workers read the data.
double SteadyRate(const TrainSummary& summary) {
  const auto epochs = static_cast<double>(summary.epoch_times.size());
  const absl::Duration time = summary.train_time - summary.epoch_times.front();
  return static_cast<double>(summary.steps) * (epochs - 1) / epochs / absl::ToDoubleSeconds(time);
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int epochs, options.Number("epochs"));
  if (epochs < 2)
    return absl::InvalidArgumentError("--epochs: the first is a warm-up, so 2 or more");
  ASSIGN_OR_RETURN(const int workers, options.Number("workers"));
  ASSIGN_OR_RETURN(const int in_flight, options.Number("in_flight"));
  ASSIGN_OR_RETURN(const TransportKind transport, TransportKindFromName(options.Text("transport")));
  PosixFileSystem files;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, options.Text("job")));
  ASSIGN_OR_RETURN(JobSpec job, ParseJob(text, options.Text("job"), {}));
  job.fit.epochs = epochs;
  job.fit.validation_split = 0;
  job.fit.closures_in_flight = in_flight;
  const double batch = static_cast<double>(job.fit.batch_size);
  std::vector<double> rates, bounds, accuracies;
  TrainSummary last;
  for (int i = 0; i < repeats; ++i) {
    bounds.push_back(SgemmRate({128, 256, 784}, kCores) / FlopsPerStep(batch));
    ASSIGN_OR_RETURN(last, TrainOnce(job, workers, transport));
    rates.push_back(SteadyRate(last));
    if (!last.test_metrics.empty()) accuracies.push_back(last.test_metrics.front().second);
  }
  const double steps = static_cast<double>(last.steps);
  Figure figure;
  figure.bench = "step";
  figure.name = absl::StrCat(TransportKindName(transport), "/mnist_mlp/ps=2/workers=", workers, "/",
                             last.data);
  figure.value = Median(rates);
  figure.unit = "steps/s";
  figure.reference = "arithmetic bound: flops of a step over SGEMM's rate on 2 cores at once";
  figure.reference_value = Median(bounds);
  figure.more = {{"sgemm_gflops_both_cores", Median(bounds) * FlopsPerStep(batch) * 1e-9},
                 {"sgemm_gflops_one_core", SgemmRate({128, 256, 784}) * 1e-9},
                 {"mflop_per_step", FlopsPerStep(batch) * 1e-6},
                 {"in_flight_per_worker", static_cast<double>(in_flight)},
                 {"steps", steps},
                 {"steps_per_second_with_warm_up", steps / absl::ToDoubleSeconds(last.train_time)},
                 {"pulls_per_step", static_cast<double>(last.ps.pulls()) / steps},
                 {"pushes_per_step", static_cast<double>(last.ps.pushes()) / steps},
                 {"bytes_pulled", static_cast<double>(last.ps.bytes_out())},
                 {"bytes_pushed", static_cast<double>(last.ps.bytes_in())},
                 {"mean_staleness", static_cast<double>(last.ps.staleness_sum()) /
                                        std::max<double>(1, last.ps.applied_slices())},
                 {"test_accuracy", accuracies.empty() ? 0 : accuracies.back()}};
  Print(figure);
  return absl::OkStatus();
}

}  // namespace

Command StepBench() {
  return {
      "step",
      "Training steps per second of the MNIST MLP on 2 ps",
      {{"job", "deploy/jobs/mnist_mlp.json", "job file"},
       {"repeats", "5", "runs; the median is printed"},
       {"epochs", "4", "epochs per run; the first, in which workers read the data, is not timed"},
       {"transport", "auto", "auto: shared memory between the processes; tcp: gRPC alone"},
       {"workers", "2", "worker processes"},
       {"in_flight", "4", "K: closures in flight per worker"}},
      Run};
}

}  // namespace cohort::bench
