// Closures per second through coordinator and workers as separate processes over TCP, with results
// returned: what scheduling itself costs.

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"

namespace cohort::bench {

namespace {

// Fetches a constant.
absl::StatusOr<proto::Program> EmptyProgram() {
  GraphBuilder graph("empty");
  const std::string value = graph.Op("Identity", {graph.Constant("one", Tensor::Scalar(1.0f))});
  graph.Output(value);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  return BindProgram("empty", model, {{}, {{value, ToFetch()}}});
}

absl::StatusOr<double> ClosuresPerSecond(LocalRun& run, const ProgramHandle& program, int count) {
  std::vector<RemoteValue> results;
  results.reserve(static_cast<size_t>(count));
  const absl::Time start = run.world().clock.Now();
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(RemoteValue result, run.coordinator().Schedule(program, {}));
    results.push_back(std::move(result));
  }
  RETURN_IF_ERROR(run.coordinator().Join());
  const double seconds = absl::ToDoubleSeconds(run.world().clock.Now() - start);
  for (const RemoteValue& result : results) {
    RETURN_IF_ERROR(run.coordinator().Fetch(result).status());
  }
  return count / seconds;
}

// Steps per second in closures of so many.
absl::StatusOr<double> StepsPerSecond(LocalRun& run, const ProgramHandle& program,
                                      const DatasetHandle& data, int steps, int count) {
  ScheduleOptions closure;
  closure.input = SplitInput{data, {}};
  closure.later_steps.resize(static_cast<size_t>(steps - 1));
  std::vector<RemoteValue> results;
  const absl::Time start = run.world().clock.Now();
  for (int i = 0; i < count; i += steps) {
    ASSIGN_OR_RETURN(RemoteValue result, run.coordinator().Schedule(program, closure));
    results.push_back(std::move(result));
  }
  RETURN_IF_ERROR(run.coordinator().Join());
  return count / absl::ToDoubleSeconds(run.world().clock.Now() - start);
}

// By turns, so that both meet the same machine.
absl::Status CompareSteps(LocalRun& run, const ProgramHandle& program, const Options& options,
                          Figure figure) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int closures, options.Number("closures"));
  ASSIGN_OR_RETURN(const int steps, options.Number("steps"));
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_end(1);
  const DatasetHandle data = run.coordinator().CreatePerWorkerDataset(spec);
  std::vector<double> ones, many;
  for (int i = 0; i <= repeats; ++i) {
    ASSIGN_OR_RETURN(const double one, StepsPerSecond(run, program, data, 1, closures));
    ASSIGN_OR_RETURN(const double more, StepsPerSecond(run, program, data, steps, closures));
    if (i == 0) continue;  // warm
    ones.push_back(one);
    many.push_back(more);
  }
  figure.name += absl::StrCat("/steps=", steps);
  figure.value = Median(many);
  figure.unit = "steps/s";
  figure.reference = "steps=1";
  figure.reference_value = Median(ones);
  Print(figure);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int closures, options.Number("closures"));
  ASSIGN_OR_RETURN(const int in_flight, options.Number("in_flight"));
  ASSIGN_OR_RETURN(const TransportKind transport, TransportKindFromName(options.Text("transport")));
  ASSIGN_OR_RETURN(const proto::Program program, EmptyProgram());
  for (int workers = 1; workers <= 3; ++workers) {
    ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run,
                     LocalRun::Start({1, workers, in_flight, transport}));
    ASSIGN_OR_RETURN(const ProgramHandle handle, run->coordinator().Register(program));
    RETURN_IF_ERROR(ClosuresPerSecond(*run, handle, closures / 10).status());  // warm
    std::vector<double> rates;
    for (int i = 0; i < repeats; ++i) {
      ASSIGN_OR_RETURN(const double rate, ClosuresPerSecond(*run, handle, closures));
      rates.push_back(rate);
    }
    Figure figure;
    figure.bench = "schedule";
    figure.name = absl::StrCat(TransportKindName(transport), "/empty/workers=", workers);
    figure.value = Median(rates);
    figure.unit = "closures/s";
    figure.more["in_flight_per_worker"] = in_flight;
    Print(figure);
    RETURN_IF_ERROR(CompareSteps(*run, handle, options, figure));
  }
  return absl::OkStatus();
}

}  // namespace

Command ScheduleBench() {
  return {"schedule",
          "Empty closures per second over 1, 2 and 3 workers, results returned; and steps in "
          "closures of several",
          {{"repeats", "5", "runs per case; the median is printed"},
           {"closures", "20000", "closures per run"},
           {"transport", "tcp", "auto, tcp, grpc, unix or shm"},
           {"in_flight", "64", "K: closures in flight per worker"},
           {"steps", "8", "steps of a closure, beside closures of one"}},
          Run};
}

}  // namespace cohort::bench
