// What checkpoints cost the steps beside them: the 99th percentile of the time of a step, with a
// checkpoint after another of a 100 MB model and without any, in pairs.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "coordinator/recovery/recovery_store.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/test_programs.h"

namespace cohort::bench {

namespace {

constexpr int kVariables = 24;
constexpr int64_t kRows = 1024, kColumns = 1024;  // 4 MiB of float32
constexpr int kPartVariables = 3;                 // that a step pulls and pushes

// Adds a tenth of some variables to themselves.
absl::StatusOr<proto::Program> PartProgram(int part) {
  GraphBuilder graph(absl::StrCat("part_", part));
  Bindings bindings;
  const std::string tenth = graph.Constant("tenth", Tensor::Scalar(0.1f));
  std::string last;
  for (int i = part * kPartVariables; i < (part + 1) * kPartVariables; ++i) {
    const std::string name = absl::StrCat("v", i);
    const std::string value = graph.Input(name, DType::kFloat32, {kRows, kColumns});
    last = graph.Op("Mul", {value, tenth});
    graph.Output(last);
    bindings.inputs[name] = FromVariable(name);
    bindings.outputs[last] = ToPush(name);
  }
  const std::string done = graph.Op("Identity", {tenth});
  graph.Output(done);
  bindings.outputs[done] = ToFetch();
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  return BindProgram(absl::StrCat("part_", part), model, bindings);
}

struct Steps {
  double p50 = 0, p99 = 0, longest = 0;  // milliseconds
  double checkpoints = 0;
};

absl::StatusOr<std::vector<ProgramHandle>> MakeModel(ClusterCoordinator& coordinator) {
  for (int i = 0; i < kVariables; ++i) {
    VariableSpec spec;
    spec.name = absl::StrCat("v", i);
    spec.shape = Shape({kRows, kColumns});
    spec.initializer.set_op("zeros");
    RETURN_IF_ERROR(coordinator.Scope(AssignAdd()).CreateVariable(spec).status());
  }
  std::vector<ProgramHandle> parts;
  for (int part = 0; part < kVariables / kPartVariables; ++part) {
    ASSIGN_OR_RETURN(const proto::Program program, PartProgram(part));
    ASSIGN_OR_RETURN(parts.emplace_back(), coordinator.Register(program));
  }
  return parts;
}

absl::StatusOr<Steps> RunSteps(int count, absl::Duration interval) {
  LocalRun::Options local;
  local.ps = 2;
  local.recovery_interval = interval;
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run, LocalRun::Start(local));
  ASSIGN_OR_RETURN(const std::vector<ProgramHandle> parts, MakeModel(run->coordinator()));
  RETURN_IF_ERROR(run->coordinator().ResumeState().status());
  std::vector<double> times;
  const int warm_up = count / 10;
  for (int i = 0; i < warm_up + count; ++i) {
    const absl::Time start = run->world().clock.Now();
    ASSIGN_OR_RETURN(const RemoteValue value,
                     run->coordinator().Schedule(parts[static_cast<size_t>(i) % parts.size()], {}));
    RETURN_IF_ERROR(run->coordinator().Fetch(value).status());
    if (i < warm_up) continue;
    times.push_back(absl::ToDoubleMilliseconds(run->world().clock.Now() - start));
  }
  std::sort(times.begin(), times.end());
  Steps steps;
  steps.p50 = times[times.size() / 2];
  steps.p99 = times[times.size() * 99 / 100];
  steps.longest = times.back();
  steps.checkpoints = static_cast<double>(run->coordinator().stats().checkpoints);
  return steps;
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int pairs, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int count, options.Number("steps"));
  ASSIGN_OR_RETURN(const int interval, options.Number("interval_ms"));
  if (count < 100 || pairs < 1 || interval < 1) {
    return absl::InvalidArgumentError("--steps: 100 or more; --repeats, --interval_ms: 1 or more");
  }
  std::vector<double> without, with, more, checkpoints;
  for (int pair = 0; pair < pairs; ++pair) {
    ASSIGN_OR_RETURN(const Steps alone, RunSteps(count, absl::ZeroDuration()));
    ASSIGN_OR_RETURN(const Steps beside, RunSteps(count, absl::Milliseconds(interval)));
    without.push_back(alone.p99);
    with.push_back(beside.p99);
    more.push_back(beside.p99 - alone.p99);
    checkpoints.push_back(beside.checkpoints);
    Print({"checkpoint",
           absl::StrCat("pair_", pair),
           beside.p99,
           "ms",
           "p99 without",
           alone.p99,
           {{"p50", beside.p50},
            {"p50_without", alone.p50},
            {"longest", beside.longest},
            {"longest_without", alone.longest},
            {"checkpoints", beside.checkpoints}}});
  }
  Print({"checkpoint",
         "p99_more_than_without",
         Median(more),
         "ms",
         "bound",
         10,
         {{"p99", Median(with)},
          {"p99_without", Median(without)},
          {"checkpoints_per_run", Median(checkpoints)},
          {"steps", static_cast<double>(count)},
          {"pairs", static_cast<double>(pairs)}}});
  return absl::OkStatus();
}

}  // namespace

Command CheckpointBench() {
  return {"checkpoint",
          "99th percentile of step times with checkpoints of a 100 MB model and without",
          {{"repeats", "5", "pairs of runs; the medians are printed"},
           {"steps", "2000", "per run, each pulls and pushes 12 MiB of it"},
           {"interval_ms", "1000", "from the end of one checkpoint to the next"}},
          Run};
}

}  // namespace cohort::bench
