#include "coordinator/model/model_programs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/layers/variable_spec.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/model.h"
#include "coordinator/model/optimizer.h"

namespace cohort {

namespace {

// Gradient clipping as in Keras, within the workers' program. The program has the whole gradient,
// even of a variable that is cut into slices, and only the clipped gradient travels. If several
// replicas compute gradients, their mean is clipped.
onnx::AttributeProto Limit(const char* name, double value) {
  return FloatAttribute(name, static_cast<float>(value));
}

// Adds the job's clipping and returns the clipped gradients in the same order.
std::vector<std::string> AddClipping(const std::vector<std::string>& gradients,
                                     const ClippingSpec& clipping, GraphBuilder& builder) {
  builder.SetNamePrefix("clip/");
  // The norm of all gradients together is computed by one node.
  if (clipping.global_clipnorm > 0) {
    return builder.OpN("ClipByNorm", gradients, static_cast<int>(gradients.size()),
                       {Limit("clip_norm", clipping.global_clipnorm)}, kCohortDomain);
  }
  std::vector<std::string> clipped;
  for (const std::string& gradient : gradients) {
    clipped.push_back(clipping.clipnorm > 0
                          ? builder.Op("ClipByNorm", {gradient},
                                       {Limit("clip_norm", clipping.clipnorm)}, kCohortDomain)
                          : builder.Op("ClipByValue", {gradient},
                                       {Limit("clip_value", clipping.clipvalue)}, kCohortDomain));
  }
  return clipped;
}

bool Clips(const ClippingSpec& clipping) {
  return clipping.clipnorm > 0 || clipping.global_clipnorm > 0 || clipping.clipvalue > 0;
}

// Replaces the gradients among the graph's outputs by clipped ones. Errors: INVALID_ARGUMENT from
// the graph.
absl::StatusOr<GradientGraph> ClipGradients(GradientGraph graph, const ClippingSpec& clipping) {
  const int count = static_cast<int>(graph.gradients.size());
  if (!Clips(clipping) || count == 0) return graph;
  // The gradients are the last outputs of the graph.
  auto* const outputs = graph.model.mutable_graph()->mutable_output();
  outputs->DeleteSubrange(outputs->size() - count, count);
  GraphBuilder builder(std::move(graph.model));
  graph.gradients = AddClipping(graph.gradients, clipping, builder);
  for (const std::string& gradient : graph.gradients) builder.Output(gradient);
  ASSIGN_OR_RETURN(graph.model, builder.Finish());
  return graph;
}

// Returns the graph for Program.joined_model: its inputs are the gradients by name, one for each
// variable, and its outputs are the clipped gradients in the same order. Errors: INVALID_ARGUMENT
// from the graph.
absl::StatusOr<onnx::ModelProto> ClippingGraph(const std::vector<std::string>& gradients,
                                               const std::vector<VariableSpec>& variables,
                                               const ClippingSpec& clipping) {
  GraphBuilder builder("clip");
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Shape& shape = variables[i].shape;
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    if (!dims.empty()) dims[0] = -1;  // a table's gradient has only the rows that the batch names
    builder.Input(gradients[i], variables[i].dtype, dims, absl::StrCat("R", i));
  }
  for (const std::string& clipped : AddClipping(gradients, clipping, builder)) {
    builder.Output(clipped);
  }
  return builder.Finish();
}

// The inputs that all three programs are built from. Lives for one call of BuildPrograms.
struct Parts {
  const JobSpec& job;
  const Model& model;
  const proto::ComponentSpec& labels;
  const std::optional<proto::ComponentSpec>& sample_weight;
  const std::vector<MetricSpec>& metrics;
};

// Adds the weights of the examples: those of the data, and in training those of the classes.
ExampleWeights AddWeights(const Parts& parts, ModelMode mode, const NodeValue& labels,
                          FormulaNodes& nodes, proto::Program& program) {
  nodes.graph().SetNamePrefix("weights/");
  ExampleWeights weights;
  NodeValue& weight = weights.sample_weight;
  if (parts.sample_weight.has_value()) {
    weight = parts.model.AddSampleWeight(*parts.sample_weight, *parts.job.data.sample_weight,
                                         nodes.graph(), program);
    weight.name = nodes.ToFloat(weight.name);
    weight.dtype = DType::kFloat32;
  }
  const std::map<int64_t, double>& by_class = parts.job.fit.class_weight;
  if (by_class.empty() || mode != ModelMode::kTraining) return weights;
  const NodeValue of_class =
      AddClassWeights(parts.job.compile.outputs.front().loss, labels, by_class, nodes);
  if (weight.has_value()) {
    weight = {nodes.Mul(AlignWeight(weight, of_class, nodes).name, of_class.name), of_class.dims};
  } else {
    weight = of_class;
  }
  return weights;
}

// Returns the component that has the sample weights, if the job names one. Errors: INVALID_ARGUMENT
// if it cannot be one.
absl::StatusOr<std::optional<proto::ComponentSpec>> FindSampleWeight(
    const JobSpec& job, const proto::ElementSpec& batch) {
  const std::optional<uint32_t>& component = job.data.sample_weight;
  if (!component.has_value()) return std::optional<proto::ComponentSpec>();
  if (*component >= static_cast<uint32_t>(batch.components_size())) {
    return absl::InvalidArgumentError(absl::StrCat("data.sample_weight is component ", *component,
                                                   ", but the data has ", batch.components_size(),
                                                   " components; give a number below that"));
  }
  const proto::ComponentSpec& found = batch.components(static_cast<int>(*component));
  if (HasLabels(found)) return std::optional<proto::ComponentSpec>(found);
  return absl::InvalidArgumentError(absl::StrCat(
      "data.sample_weight is component ", *component,
      ", which does not have one number for each example; name a component [N] or [N,1]"));
}

// Binds a fetched output. `of_replicas` says how the values of several replicas become one value.
void BindFetch(const std::string& output, proto::FetchOfReplicas of_replicas,
               proto::Program& program) {
  proto::OutputBinding* binding = program.add_outputs();
  binding->set_output(output);
  binding->set_fetch(true);
  binding->set_of_replicas(of_replicas);
}

absl::StatusOr<proto::Program> BuildPredict(const Parts& parts) {
  GraphBuilder graph("predict");
  proto::Program program;
  program.set_name("predict");
  parts.model.AddColumns(ModelMode::kPrediction, graph, program);
  parts.model.AddVariables(ModelMode::kPrediction, graph, program);
  StateValues state;
  std::vector<std::string> penalties;
  std::string output =
      parts.model.AddLayers(ModelMode::kPrediction, graph, state, penalties)[0].value;
  graph.SetNamePrefix("");
  // An output must not be an input, even in a model without nodes.
  output = graph.Op("Identity", {output});
  graph.Output(output);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  program.set_model(model.SerializeAsString());
  BindFetch(output, proto::ROWS_OF_REPLICAS, program);
  return program;
}

// Removes nodes that no output depends on. A loss that is computed from logits leaves the model's
// last activation without a reader.
void RemoveUnreadNodes(onnx::GraphProto& graph) {
  std::set<std::string> read;
  for (const onnx::ValueInfoProto& output : graph.output()) read.insert(output.name());
  std::vector<onnx::NodeProto> kept;
  // Nodes come after their inputs, so one pass backwards sees every reader first.
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

// The graph of a step with its outputs in order (first the fetched values, then the state) and the
// name of the mean loss. The inputs of the program are bound.
struct StepGraph {
  proto::Program program;
  onnx::ModelProto model;
  std::vector<std::string> fetches;
  StateValues state;
  std::string mean_loss;
};

// Adds penalties to the mean loss, and to the sum of the losses as if each example had them.
void AddPenalties(const std::vector<std::string>& penalties, StepGraph& step, GraphBuilder& graph) {
  graph.SetNamePrefix("penalties/");
  const std::string penalty = graph.Op("Sum", penalties);
  const std::string of_examples = graph.Op("Mul", {penalty, step.fetches[1]});
  step.fetches[0] = graph.Op("Add", {step.fetches[0], of_examples});
  if (!step.mean_loss.empty()) step.mean_loss = graph.Op("Add", {step.mean_loss, penalty});
}

// Builds the graph up to the loss and the metrics, which train_step and eval_step have in common.
absl::StatusOr<StepGraph> BuildStep(const Parts& parts, ModelMode mode, const char* name) {
  StepGraph step;
  GraphBuilder graph(name);
  step.program.set_name(name);
  parts.model.AddColumns(mode, graph, step.program);
  parts.model.AddLabels(parts.labels, graph, step.program);
  parts.model.AddVariables(mode, graph, step.program);
  std::vector<std::string> penalties;
  const LayerValue output = parts.model.AddLayers(mode, graph, step.state, penalties)[0];
  const OutputSpec& spec = parts.job.compile.outputs.front();
  const NodeValue labels = ValueOf(parts.model.labels_name(), parts.labels);
  FormulaNodes nodes(graph);
  const ExampleWeights weights = AddWeights(parts, mode, labels, nodes, step.program);
  ASSIGN_OR_RETURN(StepLoss loss,
                   AddStepLoss(spec, parts.metrics,
                               {output.value, output.logits, parts.model.outputs()[0].shape},
                               labels, weights, nodes));
  step.fetches = std::move(loss.fetches);
  // Gradients are taken from the mean loss; the sum is fetched for the losses shown per epoch.
  if (mode == ModelMode::kTraining) step.mean_loss = loss.mean;
  if (!penalties.empty()) AddPenalties(penalties, step, graph);
  for (const std::string& fetch : step.fetches) graph.Output(fetch);
  for (const auto& [variable, value] : step.state) graph.Output(value);
  // The mean loss is an output until unread nodes are removed, so that its own nodes stay.
  if (mode == ModelMode::kTraining) graph.Output(step.mean_loss);
  ASSIGN_OR_RETURN(step.model, graph.Finish());
  RemoveUnreadNodes(*step.model.mutable_graph());
  // The mean loss is not fetched, so it is no output of the finished graph.
  if (mode == ModelMode::kTraining) step.model.mutable_graph()->mutable_output()->RemoveLast();
  return step;
}

absl::StatusOr<proto::Program> BuildEvalStep(const Parts& parts) {
  ASSIGN_OR_RETURN(StepGraph step, BuildStep(parts, ModelMode::kEvaluation, "eval_step"));
  proto::Program& program = step.program;
  program.set_model(step.model.SerializeAsString());
  for (const std::string& fetch : step.fetches) BindFetch(fetch, proto::SUM_OF_REPLICAS, program);
  return std::move(program);
}

// Returns whether the program's replicas exchange values while they compute.
bool HasExchange(const proto::Program& program) {
  onnx::ModelProto model;
  model.ParseFromString(program.model());
  const auto& nodes = model.graph().node();
  return std::any_of(nodes.begin(), nodes.end(), [](const onnx::NodeProto& node) {
    return node.domain() == kCohortDomain && node.op_type() == "AllReduce";
  });
}

// Builds train_step. `replicated` clips in joined_model, after the replicas' gradients are joined.
absl::StatusOr<proto::Program> BuildTrainStep(const Parts& parts, bool replicated) {
  ASSIGN_OR_RETURN(StepGraph step, BuildStep(parts, ModelMode::kTraining, "train_step"));
  std::vector<std::string> names;
  std::vector<VariableSpec> trained;
  for (const VariableSpec& variable : parts.model.variables()) {
    if (!variable.trainable) continue;
    names.push_back(variable.name);
    trained.push_back(variable);
  }
  ASSIGN_OR_RETURN(GradientGraph gradients, AddGradients(step.model, step.mean_loss, names));
  proto::Program& program = step.program;
  const ClippingSpec& clipping = parts.job.compile.optimizer.clipping;
  if (replicated) {
    ASSIGN_OR_RETURN(const onnx::ModelProto joined,
                     ClippingGraph(gradients.gradients, trained, clipping));
    program.set_joined_model(joined.SerializeAsString());
  } else {
    ASSIGN_OR_RETURN(gradients, ClipGradients(std::move(gradients), clipping));
  }
  program.set_model(gradients.model.SerializeAsString());
  for (const std::string& fetch : step.fetches) BindFetch(fetch, proto::SUM_OF_REPLICAS, program);
  for (const auto& [variable, value] : step.state) {
    proto::OutputBinding* binding = program.add_outputs();
    binding->set_output(value);
    binding->set_assign(variable);
  }
  // The gradients are the last outputs of the program, in the order of the trained variables.
  for (size_t i = 0; i < names.size(); ++i) {
    proto::OutputBinding* binding = program.add_outputs();
    binding->set_output(gradients.gradients[i]);
    binding->set_push(names[i]);
  }
  return std::move(program);
}

}  // namespace

absl::StatusOr<ModelPrograms> BuildPrograms(const JobSpec& job, const proto::ElementSpec& batch) {
  if (batch.components_size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("training data has ", batch.components_size(),
                     " components; it must give examples x and labels y"));
  }
  ASSIGN_OR_RETURN(const Model model, Model::Create(job.model, job.seed, batch));
  if (model.outputs().size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", model.outputs().size(),
                     " outputs; a model that is trained here has one"));
  }
  ModelPrograms programs;
  programs.variables = model.variables();
  // The optimizer is checked first, because its errors do not depend on the data.
  RETURN_IF_ERROR(SetUpdates(job.compile.optimizer, programs.variables));
  const proto::ComponentSpec& labels = batch.components(static_cast<int>(model.labels()));
  RETURN_IF_ERROR(CheckLabels(job.compile, model.outputs()[0].shape, labels));
  ASSIGN_OR_RETURN(const std::optional<proto::ComponentSpec> sample_weight,
                   FindSampleWeight(job, batch));
  proto::ComponentSpec given = labels;
  // Data sets turn the labels into class numbers, so the programs read labels of the resulting
  // type.
  if (TakesClasses(job.compile.outputs.front().loss, model.outputs()[0].shape)) {
    programs.labels.emplace();
    programs.labels->mutable_class_labels()->set_component(model.labels());
    programs.labels->mutable_class_labels()->set_classes(model.outputs()[0].shape.dim(0));
    given = ClassLabels(labels);
  }
  programs.metrics =
      ResolvedMetrics(job.compile.outputs.front(), ValueOf("", given), model.outputs()[0].shape);
  programs.metric_sizes = StateSizes(programs.metrics, model.outputs()[0].shape);
  const Parts parts{job, model, given, sample_weight, programs.metrics};
  ASSIGN_OR_RETURN(programs.train_step, BuildTrainStep(parts, /*replicated=*/false));
  programs.exchanges = HasExchange(programs.train_step);
  // Without clipping, train_step serves any number of replicas.
  if (Clips(job.compile.optimizer.clipping)) {
    ASSIGN_OR_RETURN(programs.replicated_train_step, BuildTrainStep(parts, /*replicated=*/true));
  }
  ASSIGN_OR_RETURN(programs.eval_step, BuildEvalStep(parts));
  ASSIGN_OR_RETURN(programs.predict, BuildPredict(parts));
  programs.fetch_names = {"loss_sum", "count"};
  for (const MetricSpec& metric : programs.metrics) programs.fetch_names.push_back(metric.name);
  programs.update_rule = MakeUpdateRule(job.compile.optimizer);
  return programs;
}

}  // namespace cohort
