// What a worker adds to one large variable: MB/s of a vector that closures add to a variable on one
// ps, from one worker. The shape of the measurement that users of TensorFlow's gRPC run first.

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/test_programs.h"

namespace cohort::bench {

namespace {

constexpr int64_t kColumns = 1000;

// Fills [rows, kColumns] with ones, pushes them to v and fetches a scalar.
absl::StatusOr<proto::Program> AddOnesProgram(int64_t rows) {
  GraphBuilder graph("add_ones");
  const std::string one = graph.Constant("one", Tensor::Scalar(1.0f));
  const std::vector<float> zeros(static_cast<size_t>(rows)), row(kColumns, 1.0f);
  const std::string column = graph.Constant("column", Tensor::FromVector(zeros, {rows, 1}));
  const std::string ones =
      graph.Op("Add", {column, graph.Constant("row", Tensor::FromVector(row, {1, kColumns}))});
  const std::string done = graph.Op("Identity", {one});
  graph.Output(ones);
  graph.Output(done);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  return BindProgram("add_ones", model, {{}, {{ones, ToPush("v")}, {done, ToFetch()}}});
}

absl::StatusOr<double> AddsPerSecond(LocalRun& run, const ProgramHandle& program, int adds) {
  const absl::Time start = run.world().clock.Now();
  for (int i = 0; i < adds; ++i) {
    RETURN_IF_ERROR(run.coordinator().Schedule(program, {}).status());
  }
  RETURN_IF_ERROR(run.coordinator().Join());
  return adds / absl::ToDoubleSeconds(run.world().clock.Now() - start);
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int adds, options.Number("adds"));
  ASSIGN_OR_RETURN(const int megabytes, options.Number("megabytes"));
  ASSIGN_OR_RETURN(const TransportKind transport, TransportKindFromName(options.Text("transport")));
  const int64_t rows = int64_t{megabytes} * 250;  // of 4,000 bytes
  ASSIGN_OR_RETURN(const int in_flight, options.Number("in_flight"));
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalRun> run,
                   LocalRun::Start({1, 1, in_flight, transport}));
  VariableSpec spec;
  spec.name = "v";
  spec.shape = Shape({rows, kColumns});
  spec.initializer.set_op("zeros");
  RETURN_IF_ERROR(run->coordinator().Scope(AssignAdd()).CreateVariable(spec).status());
  ASSIGN_OR_RETURN(const proto::Program program, AddOnesProgram(rows));
  ASSIGN_OR_RETURN(const ProgramHandle handle, run->coordinator().Register(program));
  RETURN_IF_ERROR(AddsPerSecond(*run, handle, adds / 10 + 1).status());  // warm
  std::vector<double> rates;
  for (int i = 0; i < repeats; ++i) {
    ASSIGN_OR_RETURN(const double rate, AddsPerSecond(*run, handle, adds));
    rates.push_back(rate);
  }
  Figure figure;
  figure.bench = "assign_add";
  figure.name = absl::StrCat(TransportKindName(transport), "/", megabytes, "MB/ps=1/workers=1");
  figure.value = Median(rates) * megabytes;
  figure.unit = "MB/s";
  figure.more = {{"in_flight", static_cast<double>(in_flight)},
                 {"adds_per_second", Median(rates)},
                 {"repeats", static_cast<double>(repeats)}};
  Print(figure);
  return absl::OkStatus();
}

}  // namespace

Command AssignAddBench() {
  return {"assign_add",
          "MB/s that one worker adds to one variable",
          {{"repeats", "5", "runs; the median is printed"},
           {"adds", "300", "per run"},
           {"megabytes", "10", "of the variable; 10^6 bytes each"},
           {"in_flight", "2", "additions under way"},
           {"transport", "auto", "auto: what the processes share; tcp: gRPC alone"}},
          Run};
}

}  // namespace cohort::bench
