#include "coordinator/model/model_programs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
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
#include "coordinator/layers/variable_spec.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/model.h"
#include "coordinator/model/optimizer.h"
#include "coordinator/model/scored_outputs.h"

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
  clipped.reserve(gradients.size());
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
  const std::vector<ScoredOutput>& outputs;
};

// The weights of examples that are inputs of a graph, by their component of the batch.
using DataWeights = std::map<uint32_t, NodeValue>;

// Returns the weights of the output's examples as the data give them, as float32; absent if the job
// names none. Several outputs may share a component.
NodeValue AddDataWeight(const Parts& parts, const ScoredOutput& output, DataWeights& known,
                        FormulaNodes& nodes, proto::Program& program) {
  if (!output.sample_weight.has_value()) return {};
  const uint32_t component = *output.sample_weight;
  const auto found = known.find(component);
  if (found != known.end()) return found->second;
  const std::string suffix = known.empty() ? "" : absl::StrCat(":", component);
  NodeValue weight = parts.model.AddSampleWeight(suffix, component, nodes.graph(), program);
  weight.name = nodes.ToFloat(weight.name);
  weight.dtype = DType::kFloat32;
  return known[component] = weight;
}

// Adds the weights of the examples: those of the data and, in training, those of the classes.
ExampleWeights AddWeights(const Parts& parts, const ScoredOutput& output, const NodeValue& of_data,
                          const NodeValue& labels, FormulaNodes& nodes) {
  ExampleWeights weights;
  NodeValue& weight = weights.sample_weight = of_data;
  const std::map<int64_t, double>& by_class = parts.job.fit.class_weight;
  if (by_class.empty()) return weights;
  const NodeValue of_class = AddClassWeights(output.spec.loss, labels, by_class, nodes);
  if (weight.has_value()) {
    weight = {nodes.Mul(AlignWeight(weight, of_class, nodes).name, of_class.name), of_class.dims};
  } else {
    weight = of_class;
  }
  return weights;
}

// Binds a fetched output. `of_replicas` says how the values of several replicas become one value.
void BindFetch(const std::string& output, proto::FetchOfReplicas of_replicas,
               proto::Program& program) {
  proto::OutputBinding* binding = program.add_outputs();
  binding->set_output(output);
  binding->set_fetch(true);
  binding->set_of_replicas(of_replicas);
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

// Returns the mask of an output, one bool for each entry along all axes but the last, over which a
// loss is one number. Losses and metrics count only where the mask is true. Without a mask, returns
// an absent value.
NodeValue MaskOf(const LayerValue& value, const Shape& example) {
  if (value.mask.empty()) return {};
  std::vector<int64_t> dims = {-1};
  for (int axis = 0; axis + 1 < example.rank(); ++axis) dims.push_back(example.dim(axis));
  return {value.mask, std::move(dims), DType::kBool};
}

// Adds losses and metrics of each output. Errors: those of AddStepLoss.
absl::StatusOr<std::vector<StepLoss>> AddLosses(const Parts& parts, ModelMode mode,
                                                const std::vector<LayerValue>& values,
                                                const std::vector<NodeValue>& labels,
                                                FormulaNodes& nodes, proto::Program& program) {
  DataWeights of_data;
  std::vector<StepLoss> losses;
  for (size_t i = 0; i < parts.outputs.size(); ++i) {
    const ScoredOutput& output = parts.outputs[i];
    nodes.graph().SetNamePrefix("weights/");
    ExampleWeights weights;
    weights.sample_weight = AddDataWeight(parts, output, of_data, nodes, program);
    if (mode == ModelMode::kTraining) {
      weights = AddWeights(parts, output, weights.sample_weight, labels[i], nodes);
    }
    const LayerValue& value = values[output.number];
    weights.mask = MaskOf(value, output.shape);
    const std::string prefix = output.name.empty() ? "" : absl::StrCat(output.name, "/");
    ASSIGN_OR_RETURN(
        losses.emplace_back(),
        AddStepLoss(output.spec, output.metrics, {value.value, value.logits, output.shape, prefix},
                    labels[i], weights, nodes));
  }
  return losses;
}

// Returns the sum of the values, of which one is itself.
std::string SumOf(const std::vector<std::string>& values, GraphBuilder& graph) {
  return values.size() == 1 ? values[0] : graph.Op("Sum", values);
}

// Sets the mean loss and the fetches: the sum of the outputs' losses, the number of examples, each
// output's loss if several have one, and the states of all metrics.
void JoinLosses(const std::vector<StepLoss>& losses, FormulaNodes& nodes, StepGraph& step) {
  std::vector<std::string> means, sums, states;
  for (const StepLoss& loss : losses) {
    if (loss.mean.empty()) continue;
    means.push_back(loss.mean);
    sums.push_back(loss.sum);
  }
  nodes.graph().SetNamePrefix("loss/");
  for (const StepLoss& loss : losses) {
    if (loss.mean.empty() || means.size() == 1) continue;
    // The sum of the losses and their number are the state of a mean (MeanOfState).
    states.push_back(nodes.Join({nodes.Unsqueeze(nodes.ToDouble(loss.unweighted_sum), 0),
                                 nodes.Unsqueeze(nodes.ToDouble(loss.examples), 0)},
                                0));
  }
  for (const StepLoss& loss : losses) {
    states.insert(states.end(), loss.metrics.begin(), loss.metrics.end());
  }
  step.mean_loss = SumOf(means, nodes.graph());
  step.fetches = {SumOf(sums, nodes.graph()), losses.front().examples};
  step.fetches.insert(step.fetches.end(), states.begin(), states.end());
}

// Builds the graph up to the loss and the metrics, which train_step and eval_step have in common.
absl::StatusOr<StepGraph> BuildStep(const Parts& parts, ModelMode mode, const char* name) {
  StepGraph step;
  GraphBuilder graph(name);
  step.program.set_name(name);
  parts.model.AddColumns(mode, graph, step.program);
  std::vector<NodeValue> labels;
  for (const ScoredOutput& output : parts.outputs) {
    labels.push_back(
        parts.model.AddLabels(output.name, output.labels_type, output.labels, graph, step.program));
  }
  parts.model.AddVariables(mode, graph, step.program);
  std::vector<std::string> penalties;
  const std::vector<LayerValue> values = parts.model.AddLayers(mode, graph, step.state, penalties);
  FormulaNodes nodes(graph);
  ASSIGN_OR_RETURN(const std::vector<StepLoss> losses,
                   AddLosses(parts, mode, values, labels, nodes, step.program));
  JoinLosses(losses, nodes, step);
  // Gradients are taken from the mean loss; the sum is fetched for the losses shown per epoch.
  if (mode != ModelMode::kTraining) step.mean_loss.clear();
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

// Returns the metrics in the order of the fetches. If several outputs have a loss, each of these
// losses is a metric too: its mean over the examples, without loss_weights.
void SetMetrics(const std::vector<ScoredOutput>& outputs, ModelPrograms& programs) {
  const auto losses = std::count_if(outputs.begin(), outputs.end(),
                                    [](const ScoredOutput& one) { return one.spec.has_loss; });
  for (const ScoredOutput& output : outputs) {
    if (losses == 1 || !output.spec.has_loss) continue;
    MetricSpec mean = DefaultMetric(*FindMetricClass("Mean"), output.spec.loss.keras);
    mean.name = ReportedName(output.spec, "loss");
    programs.metrics.push_back(std::move(mean));
    programs.metric_sizes.push_back(2);
  }
  for (const ScoredOutput& output : outputs) {
    programs.metrics.insert(programs.metrics.end(), output.metrics.begin(), output.metrics.end());
    programs.metric_sizes.insert(programs.metric_sizes.end(), output.metric_sizes.begin(),
                                 output.metric_sizes.end());
  }
  programs.fetch_names = {"loss_sum", "count"};
  for (const MetricSpec& metric : programs.metrics) programs.fetch_names.push_back(metric.name);
}

}  // namespace

absl::StatusOr<proto::Program> BuildPredict(const Model& model) {
  GraphBuilder graph("predict");
  proto::Program program;
  program.set_name("predict");
  model.AddColumns(ModelMode::kPrediction, graph, program);
  model.AddVariables(ModelMode::kPrediction, graph, program);
  StateValues state;
  std::vector<std::string> penalties;
  const std::vector<LayerValue> outputs =
      model.AddLayers(ModelMode::kPrediction, graph, state, penalties);
  graph.SetNamePrefix("");
  for (const LayerValue& value : outputs) {
    // An output must not be an input, even in a model without nodes.
    const std::string output = graph.Op("Identity", {value.value});
    graph.Output(output);
    BindFetch(output, proto::ROWS_OF_REPLICAS, program);
  }
  ASSIGN_OR_RETURN(const onnx::ModelProto built, graph.Finish());
  program.set_model(built.SerializeAsString());
  return program;
}

absl::StatusOr<ModelPrograms> BuildPrograms(const JobSpec& job, const proto::ElementSpec& batch) {
  // A batch of one component has no labels, unless data.labels names the model's input.
  if (batch.components_size() < 2 && job.data.labels.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("training data has ", batch.components_size(),
                     " components; it must give examples x and labels y"));
  }
  ASSIGN_OR_RETURN(const ModelSpec spec, ModelForBatch(job, batch));
  ASSIGN_OR_RETURN(const Model model, Model::Create(spec, job.seed, batch));
  ModelPrograms programs;
  programs.variables = model.variables();
  // The optimizer is checked first, because its errors do not depend on the data.
  RETURN_IF_ERROR(SetUpdates(job.compile.optimizer, programs.variables));
  ASSIGN_OR_RETURN(ScoredOutputs scored, FindScoredOutputs(job, model, batch));
  programs.labels = std::move(scored.transforms);
  SetMetrics(scored.outputs, programs);
  const Parts parts{job, model, scored.outputs};
  ASSIGN_OR_RETURN(programs.train_step, BuildTrainStep(parts, /*replicated=*/false));
  programs.exchanges = HasExchange(programs.train_step);
  // Without clipping, train_step serves any number of replicas.
  if (Clips(job.compile.optimizer.clipping)) {
    ASSIGN_OR_RETURN(programs.replicated_train_step, BuildTrainStep(parts, /*replicated=*/true));
  }
  ASSIGN_OR_RETURN(programs.eval_step, BuildEvalStep(parts));
  ASSIGN_OR_RETURN(programs.predict, BuildPredict(parts.model));
  programs.update_rule = MakeUpdateRule(job.compile.optimizer);
  return programs;
}

}  // namespace cohort
