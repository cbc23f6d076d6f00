#include "coordinator/model/model_programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "coordinator/model/clipping.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/optimizer.h"
#include "coordinator/model/sequential_model.h"

namespace cohort {
namespace {

// What all three programs are made of. Lives for one BuildPrograms.
struct Parts {
  const JobSpec& job;
  const SequentialModel& model;
  const proto::ElementSpec& batch;
};

// The dimensions of a component with a symbolic batch.
std::vector<int64_t> SymbolicDims(const proto::ComponentSpec& component) {
  std::vector<int64_t> dims(component.dims().begin(), component.dims().end());
  dims[0] = -1;
  return dims;
}

std::string AddBatchInput(const char* name, const proto::ComponentSpec& component,
                          GraphBuilder& graph) {
  return graph.Input(name, static_cast<DType>(component.dtype()), SymbolicDims(component));
}

void BindInputs(int batch_components, const std::vector<VariableSpec>& variables,
                proto::Program& program) {
  constexpr const char* kNames[] = {"x", "y"};
  for (int i = 0; i < batch_components; ++i) {
    proto::InputBinding* binding = program.add_inputs();
    binding->set_input(kNames[i]);
    binding->set_batch_component(static_cast<uint32_t>(i));
  }
  for (const VariableSpec& variable : variables) {
    proto::InputBinding* binding = program.add_inputs();
    binding->set_input(variable.name);
    binding->set_variable(variable.name);
  }
}

void BindFetch(const std::string& output, proto::Program& program) {
  proto::OutputBinding* binding = program.add_outputs();
  binding->set_output(output);
  binding->set_fetch(true);
}

absl::StatusOr<proto::Program> BuildPredict(const Parts& parts) {
  GraphBuilder graph("predict");
  const std::string x = AddBatchInput("x", parts.batch.components(0), graph);
  parts.model.AddVariableInputs(graph);
  std::string output = parts.model.AddLayers(x, ModelMode::kInference, graph).value;
  graph.SetNamePrefix("");
  output = graph.Op("Identity", {output});  // an output is no input, even of a model without nodes
  graph.Output(output);
  proto::Program program;
  program.set_name("predict");
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  program.set_model(model.SerializeAsString());
  BindInputs(1, parts.model.variables(), program);
  BindFetch(output, program);
  return program;
}

// A loss that is computed from logits leaves the model's last activation without a reader.
void RemoveUnreadNodes(onnx::GraphProto& graph) {
  std::set<std::string> read;
  for (const onnx::ValueInfoProto& output : graph.output()) read.insert(output.name());
  std::vector<onnx::NodeProto> kept;
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    onnx::NodeProto& node = *graph.mutable_node(i);
    const bool is_read = std::any_of(node.output().begin(), node.output().end(),
                                     [&](const std::string& name) { return read.contains(name); });
    if (!is_read) continue;
    read.insert(node.input().begin(), node.input().end());
    kept.push_back(std::move(node));
  }
  graph.clear_node();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) *graph.add_node() = std::move(*node);
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> types;
  for (onnx::ValueInfoProto& type : *graph.mutable_value_info()) {
    if (read.contains(type.name())) *types.Add() = std::move(type);
  }
  *graph.mutable_value_info() = std::move(types);
}

// The graph of a step with its fetched outputs in order, and the name of the mean loss.
struct StepGraph {
  onnx::ModelProto model;
  std::vector<std::string> fetches;
  std::string mean_loss;
};

absl::StatusOr<StepGraph> BuildStep(const Parts& parts, ModelMode mode, const char* name) {
  StepGraph step;
  GraphBuilder graph(name);
  const auto y_dtype = static_cast<DType>(parts.batch.components(1).dtype());
  const std::string x = AddBatchInput("x", parts.batch.components(0), graph);
  const std::string y = AddBatchInput("y", parts.batch.components(1), graph);
  parts.model.AddVariableInputs(graph);
  const ModelOutput output = parts.model.AddLayers(x, mode, graph);
  const std::string losses =
      AddLoss(parts.job.compile.loss, output, y, y_dtype, parts.model.output_shape().dim(0), graph);
  step.fetches = {graph.Op("ReduceSum", {losses}, {IntAttribute("keepdims", 0)})};
  if (mode == ModelMode::kTraining) {
    step.mean_loss = graph.Op("ReduceMean", {losses}, {IntAttribute("keepdims", 0)});
  }
  for (std::string& sum : AddCounts(parts.job.compile, output, y, y_dtype, graph)) {
    step.fetches.push_back(std::move(sum));
  }
  for (const std::string& fetch : step.fetches) graph.Output(fetch);
  if (mode == ModelMode::kTraining) graph.Output(step.mean_loss);  // so that it is kept
  ASSIGN_OR_RETURN(step.model, graph.Finish());
  RemoveUnreadNodes(*step.model.mutable_graph());
  if (mode == ModelMode::kTraining) step.model.mutable_graph()->mutable_output()->RemoveLast();
  return step;
}

absl::StatusOr<proto::Program> BuildEvalStep(const Parts& parts) {
  ASSIGN_OR_RETURN(const StepGraph step, BuildStep(parts, ModelMode::kInference, "eval_step"));
  proto::Program program;
  program.set_name("eval_step");
  program.set_model(step.model.SerializeAsString());
  BindInputs(2, parts.model.variables(), program);
  for (const std::string& fetch : step.fetches) BindFetch(fetch, program);
  return program;
}

absl::StatusOr<proto::Program> BuildTrainStep(const Parts& parts) {
  ASSIGN_OR_RETURN(const StepGraph step, BuildStep(parts, ModelMode::kTraining, "train_step"));
  std::vector<std::string> names;
  for (const VariableSpec& variable : parts.model.variables()) names.push_back(variable.name);
  ASSIGN_OR_RETURN(GradientGraph gradients, AddGradients(step.model, step.mean_loss, names));
  ASSIGN_OR_RETURN(gradients, ClipGradients(std::move(gradients),
                                            parts.job.compile.optimizer.clipping));
  proto::Program program;
  program.set_name("train_step");
  program.set_model(gradients.model.SerializeAsString());
  BindInputs(2, parts.model.variables(), program);
  for (const std::string& fetch : step.fetches) BindFetch(fetch, program);
  for (size_t i = 0; i < names.size(); ++i) {
    proto::OutputBinding* binding = program.add_outputs();
    binding->set_output(gradients.gradients[i]);
    binding->set_push(names[i]);
  }
  return program;
}

}  // namespace

absl::StatusOr<ModelPrograms> BuildPrograms(const JobSpec& job, const proto::ElementSpec& batch) {
  if (batch.components_size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("training data has ", batch.components_size(),
                     " components; it must give examples x and labels y"));
  }
  ASSIGN_OR_RETURN(const SequentialModel model,
                   SequentialModel::Create(job.model, job.seed, batch.components(0)));
  if (model.variables().empty()) {
    return absl::InvalidArgumentError("the model has nothing to train; give it a Dense layer");
  }
  RETURN_IF_ERROR(CheckLabels(job.compile, model.output_shape(), batch.components(1)));
  const Parts parts{job, model, batch};
  ModelPrograms programs;
  ASSIGN_OR_RETURN(programs.train_step, BuildTrainStep(parts));
  ASSIGN_OR_RETURN(programs.eval_step, BuildEvalStep(parts));
  ASSIGN_OR_RETURN(programs.predict, BuildPredict(parts));
  programs.variables = model.variables();
  programs.fetch_names = {"loss_sum", "count"};
  for (const MetricSpec& metric : job.compile.metrics) programs.fetch_names.push_back(metric.name);
  programs.update_rule = MakeUpdateRule(job.compile.optimizer);
  return programs;
}

}  // namespace cohort
