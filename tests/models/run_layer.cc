// Runs the layer and activation cases: a functional model of one layer is read as a job file has
// it, and its graph gives the outputs and the gradients of sum(outputs x cotangent).

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/tensor/initializer.h"
#include "coordinator/model/model.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kLayerName[] = "layer";
constexpr char kCotangent[] = "cotangent";

bool IsKeras2(const ModelCase& one) { return absl::StartsWith(one.version, "k2"); }

// Returns the operation of Keras 3 that computes an activation function with arguments.
std::optional<json> OperationWithArguments(const ModelCase& one) {
  static const auto* const kOperations =
      new std::map<std::string, std::string>{{"celu", "Celu"},
                                             {"gelu", "Gelu"},
                                             {"glu", "Glu"},
                                             {"hard_shrink", "HardShrink"},
                                             {"log_softmax", "LogSoftmax"},
                                             {"soft_shrink", "SoftShrink"},
                                             {"sparsemax", "Sparsemax"},
                                             {"squareplus", "Squareplus"},
                                             {"threshold", "Threshold"}};
  const auto found = kOperations->find(one.class_name);
  if (found == kOperations->end()) return std::nullopt;
  return json{
      {"class_name", found->second}, {"module", "keras.src.ops.nn"}, {"config", one.json["call"]}};
}

// Returns the layer that computes an activation function with arguments, or nothing.
std::optional<json> LayerWithArguments(const ModelCase& one) {
  const json& call = one.json["call"];
  const auto layer = [](const char* name, const json& config) {
    return json{{"class_name", name}, {"config", config}};
  };
  if (call.empty()) return std::nullopt;
  if (one.class_name == "elu") return layer("ELU", call);
  if (one.class_name == "leaky_relu") return layer("LeakyReLU", call);
  if (one.class_name == "softmax") return layer("Softmax", call);
  if (one.class_name == "gelu" && IsKeras2(one)) {
    return layer("TFOpLambda", {{"function", "nn.gelu"}});
  }
  if (one.class_name != "relu") return OperationWithArguments(one);
  json config = call;
  // Keras 2 calls the slope of relu alpha.
  if (config.contains("alpha")) config["negative_slope"] = config["alpha"];
  config.erase("alpha");
  return layer("ReLU", config);
}

// Returns whether the text names one of the case's inputs.
bool IsInput(const ModelCase& one, const json& name) {
  if (!name.is_string()) return false;
  const json& inputs = one.json["inputs"];
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const json& input) { return input["name"] == name; });
}

// Returns an argument with Keras 3's tensors in the place of the inputs' names, and appends the
// names to `used`.
json WithTensors(const ModelCase& one, const json& value, std::vector<std::string>& used) {
  if (IsInput(one, value)) {
    const auto name = value.get<std::string>();
    if (std::find(used.begin(), used.end(), name) == used.end()) used.push_back(name);
    return {{"class_name", "__keras_tensor__"}, {"config", {{"keras_history", {name, 0, 0}}}}};
  }
  if (!value.is_structured()) return value;
  json replaced = value;
  for (json& item : replaced) item = WithTensors(one, json(item), used);
  return replaced;
}

// What the layer is called with, as a node of Keras 3, and the names of the inputs in it.
struct CaseCall {
  json node;
  std::vector<std::string> inputs;
};

CaseCall CallOf(const ModelCase& one) {
  const json& first = one.json["calls"][0];
  json args = first["args"];
  json kwargs = first["kwargs"];
  // A function of TensorFlow, which Keras 2 writes, has its arguments in the call, as a layer has.
  const bool is_tensorflow = one.class_name == "gelu" && IsKeras2(one);
  if (one.kind == "layer" || is_tensorflow) kwargs.update(one.json["call"]);
  // Softmax takes its mask as its second argument.
  if (one.class_name == "Softmax" && args.size() == 2) {
    kwargs["mask"] = args[1];
    args.erase(1);
  }
  // Masks that Keras attaches to tensors are given as arguments.
  if (one.json.contains("mask_from") && !kwargs.contains("mask")) {
    kwargs["mask"] = one.json["mask_from"];
  }
  if (one.json.contains("attached_masks")) {
    for (const auto& [input, mask] : one.json["attached_masks"].items()) {
      kwargs[input + "_mask"] = mask;
    }
  }
  CaseCall call;
  // The arguments' inputs come first, in their order.
  const json tensors = WithTensors(one, args, call.inputs);
  call.node = {{"args", tensors}, {"kwargs", WithTensors(one, kwargs, call.inputs)}};
  return call;
}

// Returns what the case has that a model of one layer cannot express here, or "".
std::string Unsupported(const ModelCase& one) {
  if (one.json["calls"].size() != 1) return "several calls";
  return one.kind == "activation" && !one.json["call"].empty() && !LayerWithArguments(one)
             ? "arguments of an activation"
             : "";
}

json LayerForm(const ModelCase& one) {
  json layer = ClassFormOf(one);
  if (one.kind == "activation") {
    const std::optional<json> other = LayerWithArguments(one);
    layer["class_name"] = other ? (*other)["class_name"] : json("Activation");
    layer["config"] = other ? (*other)["config"] : json{{"activation", one.json["config"]}};
    layer["module"] = other ? other->value("module", "keras.layers") : "keras.layers";
  } else {
    layer["module"] = "keras.layers";
  }
  layer["config"]["name"] = kLayerName;
  layer["name"] = kLayerName;
  return layer;
}

json InputForm(const GoldenTensor& input, bool keras2) {
  json dims = {nullptr};
  for (const int64_t dim : input.shape.dims().subspan(1)) dims.push_back(dim);
  const char* const key = keras2 ? "batch_input_shape" : "batch_shape";
  return {{"class_name", "InputLayer"},
          {"module", "keras.layers"},
          {"registered_name", nullptr},
          {"name", input.name},
          {"config",
           {{key, dims}, {"dtype", std::string(DTypeName(input.dtype))}, {"name", input.name}}},
          {"inbound_nodes", json::array()}};
}

// Returns the node as Keras 2 writes it, if the call has only a first argument.
json NodeOf(const CaseCall& call, bool keras2) {
  if (!keras2 || call.node["args"].size() != 1 || !call.node["kwargs"].empty()) return call.node;
  json tensors = json::array();
  for (const std::string& name : call.inputs) tensors.push_back({name, 0, 0, json::object()});
  return tensors;
}

json ModelForm(const ModelCase& one, const std::vector<GoldenTensor>& inputs, const CaseCall& call,
               size_t outputs) {
  const bool keras2 = IsKeras2(one);
  json layers = json::array();
  json ends = json::array();
  for (const GoldenTensor& input : inputs) {
    layers.push_back(InputForm(input, keras2));
    ends.push_back({input.name, 0, 0});
  }
  json layer = LayerForm(one);
  layer["inbound_nodes"] = json::array({NodeOf(call, keras2)});
  layers.push_back(layer);
  json results = json::array();
  for (size_t i = 0; i < outputs; ++i) results.push_back({kLayerName, 0, i});
  json model = {{"class_name", "Functional"},
                {"config",
                 {{"name", "model"},
                  {"layers", layers},
                  {"input_layers", ends},
                  {"output_layers", results}}}};
  if (keras2) {
    model["keras_version"] = "2.15.0";
    model["backend"] = "tensorflow";
  } else {
    model["keras_version"] = "3.15.1";
    model["module"] = "keras.src.models.functional";
    model["registered_name"] = "Functional";
  }
  return model;
}

// The graph of a case with the names of its outputs, in order: the layer's output, the new values
// of variables, and the gradients.
struct CaseGraph {
  onnx::ModelProto model;
  proto::Program program;
  StateValues state;
  std::vector<std::string> penalties;
  // Positions in the outputs: of the mask (0: there is none), the first penalty and the first
  // state.
  size_t mask = 0;
  size_t first_penalty = 0;
  size_t first_state = 0;
  std::vector<std::string> wrt;  // the inputs and variables that have gradients
};

// One case with its model. Lives for one call of RunLayerCase. Thread-compatible.
class LayerRun {
 public:
  LayerRun(const ModelCase& one, std::vector<GoldenTensor> inputs, Model model)
      : one_(one),
        inputs_(std::move(inputs)),
        weights_(TensorsOf(one.json, "weights")),
        model_(std::move(model)) {}

  // Compares the outputs, the gradients and the training call. Returns the first difference, or "".
  absl::StatusOr<std::string> Run(CaseKernels kernels) {
    std::string wrong = CheckVariables();
    if (!wrong.empty()) return wrong;
    ASSIGN_OR_RETURN(wrong, CheckWeightRules());
    if (!wrong.empty()) return wrong;
    ASSIGN_OR_RETURN(const std::string inference,
                     RunMode(ModelMode::kEvaluation, one_.json, kernels));
    if (!inference.empty() || !one_.json.contains("training")) return inference;
    ASSIGN_OR_RETURN(const std::string training,
                     RunMode(ModelMode::kTraining, one_.json["training"], kernels));
    return training.empty() ? training : absl::StrCat("in training: ", training);
  }

 private:
  // Checks that the model has the variables of the case, in Keras's order.
  std::string CheckVariables() const {
    const std::vector<VariableSpec>& variables = model_.variables();
    if (variables.size() != weights_.size()) {
      return absl::StrCat(variables.size(), " variables for ", weights_.size(), " weights");
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      const bool named = absl::EndsWith(variables[i].name, "/" + weights_[i].name);
      if (named && variables[i].shape == weights_[i].shape) continue;
      return absl::StrCat("variable ", variables[i].name, variables[i].shape.ToString(),
                          " for weight ", weights_[i].name, weights_[i].shape.ToString());
    }
    return "";
  }

  // Compares how the variables begin, and what the constraints make of the weights of the case.
  absl::StatusOr<std::string> CheckWeightRules() const {
    const GoldenTolerance tolerance = ToleranceOf(one_.json);
    for (const GoldenTensor& initial : TensorsOf(one_.json, "initial")) {
      const VariableSpec* const variable = VariableOf(initial.name);
      if (variable == nullptr) return absl::StrCat("no variable ", initial.name);
      ASSIGN_OR_RETURN(const Tensor value, InitialValue(*variable));
      const std::string wrong = Difference(initial, value, {});
      if (!wrong.empty()) return absl::StrCat("in the beginning, ", wrong);
    }
    const std::vector<GoldenTensor> constrained = TensorsOf(one_.json, "constrained");
    for (size_t i = 0; i < constrained.size(); ++i) {
      ASSIGN_OR_RETURN(const Tensor value, AfterConstraint(model_.variables()[i].rule_parameters,
                                                           ToTensor(weights_[i])));
      const std::string wrong = Difference(constrained[i], value, tolerance);
      if (!wrong.empty()) return absl::StrCat("after its constraint, ", wrong);
    }
    return std::string();
  }

  // Returns the variable of a weight; null: there is none.
  const VariableSpec* VariableOf(const std::string& weight) const {
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i].name == weight) return &model_.variables()[i];
    }
    return nullptr;
  }

  static absl::StatusOr<Tensor> InitialValue(const VariableSpec& variable) {
    const proto::Initializer& rule = variable.initializer;
    const InitializerSpec initializer = {rule.op(), rule.a(), rule.b(), rule.seed()};
    const int64_t rows = variable.shape.rank() > 0 ? variable.shape.dim(0) : 1;
    return InitialRows(initializer, variable.name, DType::kFloat32, variable.shape, {0, rows});
  }

  absl::StatusOr<CaseGraph> Build(ModelMode mode, const json* gradients) const {
    CaseGraph built;
    GraphBuilder graph("case");
    model_.AddColumns(mode, graph, built.program);
    model_.AddVariables(mode, graph, built.program);
    const std::vector<LayerValue> outputs =
        model_.AddLayers(mode, graph, built.state, built.penalties);
    graph.SetNamePrefix("");
    std::vector<std::string> values;
    for (const LayerValue& output : outputs) values.push_back(graph.Op("Identity", {output.value}));
    if (!outputs[0].mask.empty()) {
      built.mask = values.size();
      values.push_back(graph.Op("Identity", {outputs[0].mask}));
    }
    built.first_penalty = values.size();
    for (const std::string& penalty : built.penalties) values.push_back(penalty);
    built.first_state = values.size();
    for (const auto& [variable, value] : built.state) values.push_back(value);
    for (const std::string& value : values) graph.Output(value);
    if (gradients == nullptr) {
      ASSIGN_OR_RETURN(built.model, graph.Finish());
      return built;
    }
    ASSIGN_OR_RETURN(const std::string loss, AddLoss(*gradients, values, graph));
    graph.Output(loss);
    for (const GoldenTensor& input : TensorsOf(*gradients, "inputs")) {
      built.wrt.push_back(input.name);
    }
    for (const VariableSpec& variable : model_.variables()) {
      if (variable.trainable) built.wrt.push_back(variable.name);
    }
    ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
    ASSIGN_OR_RETURN(GradientGraph backward, AddGradients(forward, loss, built.wrt));
    built.model = std::move(backward.model);
    return built;
  }

  // Adds the sum of the products of outputs and cotangents, which become inputs.
  static absl::StatusOr<std::string> AddLoss(const json& gradients,
                                             const std::vector<std::string>& outputs,
                                             GraphBuilder& graph) {
    std::string loss;
    const std::vector<GoldenTensor> cotangents = TensorsOf(gradients, kCotangent);
    for (size_t i = 0; i < cotangents.size(); ++i) {
      const std::string name = absl::StrCat(kCotangent, i);
      graph.Input(name, DType::kFloat32, cotangents[i].shape.dims());
      const std::string part = graph.Op("ReduceSum", {graph.Op("Mul", {outputs.at(i), name})},
                                        {IntAttribute("keepdims", 0)});
      loss = i == 0 ? part : graph.Op("Add", {loss, part});
    }
    return loss;
  }

  absl::StatusOr<std::vector<Tensor>> Feed(const CaseGraph& built, const json* gradients) const {
    std::vector<Tensor> fed;
    for (const proto::InputBinding& binding : built.program.inputs()) {
      if (binding.has_batch_component()) {
        // Tables are given whole, so that ids are positions in what is given.
        fed.push_back(ToTensor(inputs_.at(binding.batch_component())));
        continue;
      }
      for (size_t i = 0; i < weights_.size(); ++i) {
        if (model_.variables()[i].name == binding.variable()) fed.push_back(ToTensor(weights_[i]));
      }
    }
    if (gradients != nullptr) {
      for (const GoldenTensor& one : TensorsOf(*gradients, kCotangent)) {
        fed.push_back(ToTensor(one));
      }
    }
    return fed;
  }

  // Runs one mode and compares it with `expected`: the case itself, or its training call.
  absl::StatusOr<std::string> RunMode(ModelMode mode, const json& expected, CaseKernels kernels) {
    const json* const gradients = expected.contains("gradients") ? &expected["gradients"] : nullptr;
    ASSIGN_OR_RETURN(const CaseGraph built, Build(mode, gradients));
    ASSIGN_OR_RETURN(const std::vector<Tensor> fed, Feed(built, gradients));
    ASSIGN_OR_RETURN(const std::vector<Tensor> results, RunCaseGraph(built.model, fed, kernels));
    const GoldenTolerance tolerance = ToleranceOf(one_.json);
    const std::vector<GoldenTensor> outputs = TensorsOf(expected, "outputs");
    std::string difference;
    for (size_t i = 0; i < outputs.size() && difference.empty(); ++i) {
      difference = Difference(outputs[i], results.at(i), tolerance);
    }
    if (difference.empty()) difference = CompareMask(expected, built, results);
    if (difference.empty()) difference = CompareLosses(expected, built, results, tolerance);
    if (difference.empty()) difference = CompareWeights(expected, built, results, tolerance);
    if (difference.empty() && gradients != nullptr) {
      difference = CompareGradients(*gradients, built, results);
    }
    return difference;
  }

  // Compares the mask of the first output.
  static std::string CompareMask(const json& expected, const CaseGraph& built,
                                 const std::vector<Tensor>& results) {
    if (!expected.contains("output_mask") || expected["output_mask"].empty()) return "";
    const json& first = expected["output_mask"][0];
    if (first.is_null()) return built.mask == 0 ? "" : "the output has a mask";
    if (built.mask == 0) return "the output has no mask";
    return Difference(TensorsOf({{"masks", {first}}}, "masks").at(0), results.at(built.mask), {});
  }

  // Compares what the layer adds to the loss, in ascending order.
  static std::string CompareLosses(const json& expected, const CaseGraph& built,
                                   const std::vector<Tensor>& results,
                                   const GoldenTolerance& tolerance) {
    if (!expected.contains("losses")) return "";
    auto losses = expected["losses"].get<std::vector<double>>();
    std::vector<double> actual;
    for (size_t i = built.first_penalty; i < built.first_state; ++i) {
      actual.push_back(static_cast<double>(*results.at(i).data<float>()));
    }
    if (losses.size() != actual.size()) {
      return absl::StrCat(actual.size(), " losses, not ", losses.size());
    }
    std::sort(losses.begin(), losses.end());
    std::sort(actual.begin(), actual.end());
    for (size_t i = 0; i < losses.size(); ++i) {
      // A loss is computed in float32 also where the outputs are exact.
      const double allowed =
          std::max(tolerance.absolute, std::max(tolerance.relative, 1e-6) * std::fabs(losses[i]));
      if (std::fabs(actual[i] - losses[i]) > allowed) {
        return absl::StrCat("a loss of ", actual[i], ", not ", losses[i]);
      }
    }
    return "";
  }

  // Compares the variables after a training call. A variable without a new value keeps its own.
  std::string CompareWeights(const json& expected, const CaseGraph& built,
                             const std::vector<Tensor>& results,
                             const GoldenTolerance& tolerance) const {
    const std::vector<GoldenTensor> after = TensorsOf(expected, "weights_after");
    for (size_t i = 0; i < after.size(); ++i) {
      Tensor value = ToTensor(weights_.at(i));
      size_t output = built.first_state;
      for (const auto& [variable, name] : built.state) {
        if (variable == model_.variables()[i].name) value = results.at(output);
        ++output;
      }
      const std::string difference = Difference(after[i], value, tolerance);
      if (!difference.empty()) return absl::StrCat("after the call, ", difference);
    }
    return "";
  }

  std::string CompareGradients(const json& gradients, const CaseGraph& built,
                               const std::vector<Tensor>& results) const {
    const GoldenTolerance tolerance = ToleranceOf(gradients);
    std::vector<GoldenTensor> expected = TensorsOf(gradients, "inputs");
    for (GoldenTensor& weight : TensorsOf(gradients, "weights")) {
      expected.push_back(std::move(weight));
    }
    if (expected.size() != built.wrt.size()) {
      return absl::StrCat(built.wrt.size(), " gradients, not ", expected.size());
    }
    const size_t first = results.size() - expected.size();
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string difference = Difference(expected[i], results[first + i], tolerance);
      if (!difference.empty()) return absl::StrCat("gradient of ", difference);
    }
    return "";
  }

  const ModelCase& one_;
  const std::vector<GoldenTensor> inputs_, weights_;
  const Model model_;
};

}  // namespace

Verdict RunLayerCase(const ModelCase& one, CaseKernels kernels) {
  const CaseCall call = CallOf(one);
  std::vector<GoldenTensor> inputs;
  for (const std::string& name : call.inputs) {
    for (GoldenTensor& input : TensorsOf(one.json, "inputs")) {
      if (input.name == name && input.shape.rank() > 0) inputs.push_back(std::move(input));
    }
  }
  // A class that is not known is refused, whatever else the case has.
  const json model_form = ModelForm(one, inputs, call, one.json["outputs"].size());
  const absl::StatusOr<JobSpec> job = ParseCaseJob(model_form, {{"optimizer", "sgd"}});
  if (!job.ok()) return Verdict::Refused(job.status());
  const std::string unsupported = Unsupported(one);
  if (!unsupported.empty()) return Verdict::Failed("the harness has no " + unsupported);
  absl::StatusOr<Model> model = Model::Create(job->model, 0, BatchOf(inputs));
  if (!model.ok()) return Verdict::Refused(model.status());
  const absl::StatusOr<std::string> difference =
      LayerRun(one, std::move(inputs), *std::move(model)).Run(kernels);
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace cohort
