// Runs the loss cases: the loss is read as a job file has it, and its graph gives the loss and the
// gradient of sum(loss x cotangent).

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "coordinator/losses/loss_reduction.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

// A loss case as a graph, with the tensors of its inputs.
struct LossGraph {
  onnx::ModelProto model;
  std::vector<Tensor> inputs;
};

const GoldenTensor* Find(const std::vector<GoldenTensor>& tensors, const std::string& name) {
  for (const GoldenTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Adds an array of the case as a graph input; nothing if the case has no such array.
NodeValue AddInput(const GoldenTensor* golden, LossGraph& built, FormulaNodes& nodes) {
  if (golden == nullptr) return {};
  const absl::Span<const int64_t> dims = golden->shape.dims();
  nodes.graph().Input(golden->name, golden->dtype, dims);
  built.inputs.push_back(ToTensor(*golden));
  return {golden->name, {dims.begin(), dims.end()}, golden->dtype};
}

absl::StatusOr<LossGraph> BuildLoss(const LossSpec& loss, const json& one) {
  const std::vector<GoldenTensor> arrays = TensorsOf(one, "inputs");
  LossGraph built;
  GraphBuilder graph("case");
  FormulaNodes nodes(graph);
  LossInputs in;
  in.y_true = AddInput(Find(arrays, "y_true"), built, nodes);
  in.y_pred = AddInput(Find(arrays, "y_pred"), built, nodes);
  ExampleWeights weights;
  weights.sample_weight = AddInput(Find(arrays, "sample_weight"), built, nodes);
  weights.mask = AddInput(Find(arrays, "mask"), built, nodes);
  ASSIGN_OR_RETURN(in.y_true, FitLabels(RowOf(loss).labels, in.y_true,
                                        OutputForLabels(RowOf(loss).labels, loss.config, in.y_pred),
                                        "the loss", nodes));
  const NodeValue value =
      ReduceLosses(loss.reduction, AddExampleLosses(loss, in, nodes), weights, nodes);
  const std::string output = graph.Op("Identity", {value.name});
  graph.Output(output);
  const GoldenTensor cotangent = TensorsOf(one["gradients"], "cotangent").at(0);
  const NodeValue factor = AddInput(&cotangent, built, nodes);
  const std::string sum = nodes.SumAll(nodes.Mul(value.name, factor.name));
  graph.Output(sum);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(GradientGraph backward, AddGradients(forward, sum, {"y_pred"}));
  built.model = std::move(backward.model);
  return built;
}

absl::StatusOr<std::string> Compare(const LossSpec& loss, const json& one, CaseKernels kernels) {
  ASSIGN_OR_RETURN(const LossGraph built, BuildLoss(loss, one));
  ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                   RunCaseGraph(built.model, built.inputs, kernels));
  std::string difference =
      Difference(TensorsOf(one, "outputs").at(0), results.at(0), ToleranceOf(one));
  if (!difference.empty()) return difference;
  const json& gradients = one["gradients"];
  difference =
      Difference(TensorsOf(gradients, "inputs").at(0), results.back(), ToleranceOf(gradients));
  return difference.empty() ? difference : absl::StrCat("gradient of ", difference);
}

}  // namespace

Verdict RunLossCase(const ModelCase& one, CaseKernels kernels) {
  const absl::StatusOr<JobSpec> job = ParseCompileCase(one, {{"loss", ClassFormOf(one)}});
  if (!job.ok()) return Verdict::Refused(job.status());
  const absl::StatusOr<std::string> difference =
      Compare(job->compile.outputs.front().loss, one.json, kernels);
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace cohort
