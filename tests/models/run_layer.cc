// Runs the layer and activation cases: a functional model of one layer is read as a job file has
// it, and its graph gives the outputs and the gradients of sum(outputs x cotangent).

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "coordinator/model/model.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kLayerName[] = "layer";
constexpr char kCotangent[] = "cotangent";

bool IsKeras2(const ModelCase& one) { return absl::StartsWith(one.version, "k2"); }

// Returns the names of the inputs that the first call gives to the layer, or nothing if the call
// gives something else.
std::optional<std::vector<std::string>> CallInputs(const ModelCase& one) {
  const json& args = one.json["calls"][0]["args"];
  if (args.size() != 1) return std::nullopt;
  const json& first = args[0];
  if (first.is_string()) return std::vector<std::string>{first.get<std::string>()};
  if (!first.is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const json& name : first) {
    if (!name.is_string()) return std::nullopt;
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Returns what the case has that a model of one layer cannot express here, or "".
std::string Unsupported(const ModelCase& one) {
  const json& calls = one.json["calls"];
  if (calls.size() != 1) return "several calls";
  for (const auto& [name, value] : calls[0]["kwargs"].items()) {
    if (!value.is_null()) return absl::StrCat("the argument ", name);
  }
  if (!CallInputs(one)) return "other arguments than inputs";
  if (!one.json["call"].empty()) return "arguments of the call";
  for (const char* key : {"output_mask", "attached_masks", "losses"}) {
    if (one.json.contains(key) && !one.json[key].empty()) return key;
  }
  return one.json["outputs"].size() == 1 ? "" : "several outputs";
}

json LayerForm(const ModelCase& one) {
  json layer = ClassFormOf(one);
  if (one.kind == "activation") {
    layer["class_name"] = "Activation";
    layer["config"] = {{"activation", one.json["config"]}};
  }
  layer["module"] = "keras.layers";
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

// Returns the layer's node: the way in which Keras 2 or Keras 3 writes what the layer is given.
json NodeOf(const std::vector<std::string>& names, bool is_list, bool keras2) {
  json tensors = json::array();
  for (const std::string& name : names) {
    if (keras2) {
      tensors.push_back({name, 0, 0, json::object()});
    } else {
      tensors.push_back(
          {{"class_name", "__keras_tensor__"}, {"config", {{"keras_history", {name, 0, 0}}}}});
    }
  }
  if (keras2) return tensors;
  json args = json::array();
  args.push_back(is_list ? tensors : tensors[0]);
  return {{"args", args}, {"kwargs", json::object()}};
}

json ModelForm(const ModelCase& one, const std::vector<GoldenTensor>& inputs) {
  const bool keras2 = IsKeras2(one);
  json layers = json::array();
  json ends = json::array();
  std::vector<std::string> names;
  for (const GoldenTensor& input : inputs) {
    layers.push_back(InputForm(input, keras2));
    ends.push_back({input.name, 0, 0});
    names.push_back(input.name);
  }
  json layer = LayerForm(one);
  const bool is_list = one.json["calls"][0]["args"][0].is_array();
  layer["inbound_nodes"] = json::array({NodeOf(names, is_list, keras2)});
  layers.push_back(layer);
  json model = {{"class_name", "Functional"},
                {"config",
                 {{"name", "model"},
                  {"layers", layers},
                  {"input_layers", ends},
                  {"output_layers", {{kLayerName, 0, 0}}}}}};
  if (keras2) {
    model["keras_version"] = "2.15.0";
    model["backend"] = "tensorflow";
  } else {
    model["module"] = "keras.src.models.functional";
    model["registered_name"] = "Functional";
  }
  return model;
}

proto::ElementSpec BatchOf(const std::vector<GoldenTensor>& inputs) {
  proto::ElementSpec batch;
  for (const GoldenTensor& input : inputs) {
    proto::ComponentSpec& component = *batch.add_components();
    component.set_name(input.name);
    component.set_dtype(static_cast<int32_t>(input.dtype));
    component.mutable_dims()->Assign(input.shape.dims().begin(), input.shape.dims().end());
  }
  proto::ComponentSpec& label = *batch.add_components();
  label.set_name("label");
  label.set_dtype(static_cast<int32_t>(DType::kInt64));
  label.add_dims(1);
  return batch;
}

// The graph of a case with the names of its outputs, in order: the layer's output, the new values
// of variables, and the gradients.
struct CaseGraph {
  onnx::ModelProto model;
  proto::Program program;
  StateValues state;
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
    const std::string wrong = CheckVariables();
    if (!wrong.empty()) return wrong;
    ASSIGN_OR_RETURN(const std::string inference,
                     RunMode(ModelMode::kPrediction, one_.json, kernels));
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

  absl::StatusOr<CaseGraph> Build(ModelMode mode, const json* gradients) const {
    CaseGraph built;
    GraphBuilder graph("case");
    model_.AddColumns(mode, graph, built.program);
    model_.AddVariables(mode, graph, built.program);
    std::string output = model_.AddLayers(mode, graph, built.state).value;
    graph.SetNamePrefix("");
    output = graph.Op("Identity", {output});
    graph.Output(output);
    for (const auto& [variable, value] : built.state) graph.Output(value);
    if (gradients == nullptr) {
      ASSIGN_OR_RETURN(built.model, graph.Finish());
      return built;
    }
    const GoldenTensor cotangent = TensorsOf(*gradients, kCotangent).at(0);
    graph.Input(kCotangent, DType::kFloat32, cotangent.shape.dims());
    const std::string loss = graph.Op("ReduceSum", {graph.Op("Mul", {output, kCotangent})},
                                      {IntAttribute("keepdims", 0)});
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

  absl::StatusOr<std::vector<Tensor>> Feed(const CaseGraph& built, const json* gradients) const {
    std::vector<Tensor> fed;
    for (const proto::InputBinding& binding : built.program.inputs()) {
      if (binding.has_batch_component()) {
        if (!binding.rows_of().empty()) return absl::UnimplementedError("a table read by rows");
        fed.push_back(ToTensor(inputs_.at(binding.batch_component())));
        continue;
      }
      for (size_t i = 0; i < weights_.size(); ++i) {
        if (model_.variables()[i].name == binding.variable()) fed.push_back(ToTensor(weights_[i]));
      }
    }
    if (gradients != nullptr) fed.push_back(ToTensor(TensorsOf(*gradients, kCotangent).at(0)));
    return fed;
  }

  // Runs one mode and compares it with `expected`: the case itself, or its training call.
  absl::StatusOr<std::string> RunMode(ModelMode mode, const json& expected, CaseKernels kernels) {
    const json* const gradients = expected.contains("gradients") ? &expected["gradients"] : nullptr;
    ASSIGN_OR_RETURN(const CaseGraph built, Build(mode, gradients));
    ASSIGN_OR_RETURN(const std::vector<Tensor> fed, Feed(built, gradients));
    ASSIGN_OR_RETURN(const std::vector<Tensor> results, RunCaseGraph(built.model, fed, kernels));
    const GoldenTolerance tolerance = ToleranceOf(one_.json);
    std::string difference =
        Difference(TensorsOf(expected, "outputs").at(0), results.at(0), tolerance);
    if (difference.empty()) difference = CompareWeights(expected, built, results, tolerance);
    if (difference.empty() && gradients != nullptr) {
      difference = CompareGradients(*gradients, built, results);
    }
    return difference;
  }

  // Compares the variables after a training call. A variable without a new value keeps its own.
  std::string CompareWeights(const json& expected, const CaseGraph& built,
                             const std::vector<Tensor>& results,
                             const GoldenTolerance& tolerance) const {
    const std::vector<GoldenTensor> after = TensorsOf(expected, "weights_after");
    for (size_t i = 0; i < after.size(); ++i) {
      Tensor value = ToTensor(weights_.at(i));
      size_t output = 0;
      for (const auto& [variable, name] : built.state) {
        ++output;
        if (variable == model_.variables()[i].name) value = results.at(output);
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
  const std::optional<std::vector<std::string>> names = CallInputs(one);
  std::vector<GoldenTensor> inputs;
  for (GoldenTensor& input : TensorsOf(one.json, "inputs")) {
    const bool given =
        !names || std::find(names->begin(), names->end(), input.name) != names->end();
    if (given && input.shape.rank() > 0) inputs.push_back(std::move(input));
  }
  // A class that is not known is refused, whatever else the case has.
  const absl::StatusOr<JobSpec> job = ParseCaseJob(ModelForm(one, inputs), {{"optimizer", "sgd"}});
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
