// Runs the metric cases: the metric is read as a job file has it, its graph gives the state of each
// update, the states are added up, and the sum has the value of the case after each update.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/metrics/metric_table.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

const GoldenTensor* Find(const std::vector<GoldenTensor>& tensors, const json& name) {
  for (const GoldenTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// One update with the graph of its state.
struct Update {
  onnx::ModelProto model;
  std::vector<Tensor> inputs;
};

NodeValue AddInput(const GoldenTensor& golden, const std::string& name, Update& update,
                   FormulaNodes& nodes) {
  const absl::Span<const int64_t> dims = golden.shape.dims();
  nodes.graph().Input(name, golden.dtype, dims);
  update.inputs.push_back(ToTensor(golden));
  return {name, {dims.begin(), dims.end()}, golden.dtype};
}

// Returns ones in the shape of `like`.
GoldenTensor OnesLike(const GoldenTensor& like) {
  GoldenTensor ones = like;
  ones.dtype = DType::kFloat32;
  ones.values.assign(like.values.size(), 1.0);
  return ones;
}

absl::StatusOr<Update> BuildUpdate(const MetricSpec& metric, const json& call,
                                   const std::vector<GoldenTensor>& arrays) {
  Update update;
  GraphBuilder graph("case");
  FormulaNodes nodes(graph);
  const GoldenTensor* const truth = Find(arrays, call["args"][0]);
  const json& kwargs = call["kwargs"];
  const GoldenTensor* weight =
      kwargs.contains("sample_weight") ? Find(arrays, kwargs["sample_weight"]) : nullptr;
  if (truth == nullptr) return absl::InvalidArgumentError("an update has no values");
  LossInputs in;
  in.y_true = AddInput(*truth, "y_true", update, nodes);
  ExampleWeights weights;
  if (call["args"].size() > 1) {
    const GoldenTensor* const prediction = Find(arrays, call["args"][1]);
    in.y_pred = AddInput(*prediction, "y_pred", update, nodes);
    if (weight != nullptr) {
      weights.sample_weight = AddInput(*weight, "sample_weight", update, nodes);
    }
  } else {
    // A plain mean takes its weights where other metrics take predictions.
    const GoldenTensor ones = OnesLike(*truth);
    in.y_pred = AddInput(weight == nullptr ? ones : *weight, "y_pred", update, nodes);
    if (in.y_pred.rank() < in.y_true.rank()) {
      const NodeValue aligned = AlignWeight(in.y_pred, in.y_true, nodes);
      in.y_pred = {nodes.Op("Expand", {aligned.name, nodes.ShapeOf(in.y_true.name)}),
                   in.y_true.dims};
    }
  }
  ASSIGN_OR_RETURN(const std::string state, AddMetricState(metric, in, weights, nodes));
  graph.Output(state);
  ASSIGN_OR_RETURN(update.model, graph.Finish());
  return update;
}

absl::StatusOr<std::string> Compare(const MetricSpec& metric, const json& one,
                                    CaseKernels kernels) {
  const std::vector<GoldenTensor> arrays = TensorsOf(one, "inputs");
  const std::vector<GoldenTensor> expected = TensorsOf(one, "outputs");
  std::vector<double> state;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSIGN_OR_RETURN(const Update update, BuildUpdate(metric, one["calls"][i], arrays));
    ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                     RunCaseGraph(update.model, update.inputs, kernels));
    const absl::Span<const double> added = results.at(0).span<double>();
    state.resize(added.size(), 0.0);
    for (size_t j = 0; j < added.size(); ++j) state[j] += added[j];
    const std::vector<double> value = MetricValue(metric, state);
    const Shape shape = value.size() == 1 && expected[i].shape.rank() == 0
                            ? Shape{}
                            : Shape({static_cast<int64_t>(value.size())});
    const std::string difference =
        Difference(expected[i], Tensor::FromVector(value, shape), ToleranceOf(one));
    if (!difference.empty()) return difference;
  }
  return std::string();
}

}  // namespace

Verdict RunMetricCase(const ModelCase& one, CaseKernels kernels) {
  const absl::StatusOr<JobSpec> job = ParseCompileCase(
      one, {{"loss", "mse"}, {"weighted_metrics", json::array({ClassFormOf(one)})}});
  if (!job.ok()) return Verdict::Refused(job.status());
  const absl::StatusOr<std::string> difference =
      Compare(job->compile.outputs.front().metrics.at(0), one.json, kernels);
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace cohort
