#include "tests/models/run_config.h"

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/program/graph_builder.h"
#include "coordinator/model/model.h"

namespace cohort {
namespace {

using nlohmann::json;

// The rounding that two float32 implementations of a small model may differ by.
constexpr GoldenTolerance kTolerance = {.relative = 2e-5, .absolute = 2e-5};

// Returns the array that a rule describes. numpy's random_sample takes two draws for a number.
GoldenTensor ValuesOf(const json& rule) {
  std::mt19937 draw(rule["seed"].get<uint32_t>());
  const auto low = rule["low"].get<double>();
  const auto high = rule["high"].get<double>();
  const bool whole = rule.value("whole", false);
  GoldenTensor tensor;
  tensor.name = rule.value("name", "");
  tensor.dtype = whole ? DType::kInt32 : DType::kFloat32;
  tensor.shape = Shape(rule["shape"].get<std::vector<int64_t>>());
  for (int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
    const double upper = static_cast<double>(draw() >> 5);
    const double lower = static_cast<double>(draw() >> 6);
    const double value = low + (high - low) * (upper * 67108864.0 + lower) / 9007199254740992.0;
    tensor.values.push_back(whole ? std::floor(value)
                                  : static_cast<double>(static_cast<float>(value)));
  }
  return tensor;
}

std::vector<GoldenTensor> ArraysOf(const json& rules) {
  std::vector<GoldenTensor> arrays;
  for (const json& rule : rules) arrays.push_back(ValuesOf(rule));
  return arrays;
}

// Returns the positions of the variables of the layer at a path of layers' names.
std::vector<size_t> VariablesOf(const Model& model, const std::string& path) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < model.variables().size(); ++i) {
    if (absl::StartsWith(model.variables()[i].name, path + "/")) positions.push_back(i);
  }
  return positions;
}

// Returns the values of the model's variables in their order. The weights of a layer come in the
// order of its variables.
absl::StatusOr<std::vector<GoldenTensor>> MatchWeights(const Model& model, const json& rules) {
  const std::vector<VariableSpec>& variables = model.variables();
  if (variables.size() != rules.size()) {
    return absl::InternalError(
        absl::StrCat(variables.size(), " variables for ", rules.size(), " weights"));
  }
  std::vector<GoldenTensor> values(variables.size());
  std::map<std::string, size_t> next;  // the next variable of each layer
  for (const json& rule : rules) {
    const auto path = rule["layer"].get<std::string>();
    const std::vector<size_t> positions = VariablesOf(model, path);
    const size_t at = next[path]++;
    GoldenTensor value = ValuesOf(rule);
    if (at >= positions.size() || variables[positions[at]].shape != value.shape) {
      return absl::InternalError(absl::StrCat("layer ", path, " has no variable for its weight ",
                                              value.name, value.shape.ToString()));
    }
    values[positions[at]] = std::move(value);
  }
  return values;
}

// Builds the model for evaluation, runs it, and returns its outputs.
absl::StatusOr<std::vector<Tensor>> Evaluate(const Model& model,
                                             const std::vector<GoldenTensor>& inputs,
                                             const std::vector<GoldenTensor>& weights,
                                             CaseKernels kernels) {
  GraphBuilder graph("config");
  proto::Program program;
  model.AddColumns(ModelMode::kEvaluation, graph, program);
  model.AddVariables(ModelMode::kEvaluation, graph, program);
  StateValues state;
  std::vector<std::string> penalties;
  const std::vector<LayerValue> outputs =
      model.AddLayers(ModelMode::kEvaluation, graph, state, penalties);
  graph.SetNamePrefix("");
  for (const LayerValue& output : outputs) graph.Output(graph.Op("Identity", {output.value}));
  ASSIGN_OR_RETURN(const onnx::ModelProto built, graph.Finish());
  std::vector<Tensor> fed;
  for (const proto::InputBinding& binding : program.inputs()) {
    if (binding.has_batch_component()) {
      fed.push_back(ToTensor(inputs.at(binding.batch_component())));
      continue;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      if (model.variables()[i].name == binding.variable()) fed.push_back(ToTensor(weights[i]));
    }
  }
  return RunCaseGraph(built, fed, kernels);
}

absl::StatusOr<std::string> Compare(const Model& model, const json& one, CaseKernels kernels) {
  ASSIGN_OR_RETURN(const std::vector<GoldenTensor> weights, MatchWeights(model, one["weights"]));
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                   Evaluate(model, ArraysOf(one["inputs"]), weights, kernels));
  const std::vector<GoldenTensor> expected = TensorsOf(one, "outputs");
  if (outputs.size() != expected.size()) {
    return absl::StrCat(outputs.size(), " outputs, not ", expected.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string difference = Difference(expected[i], outputs[i], kTolerance);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  return std::string();
}

}  // namespace

absl::StatusOr<std::vector<KerasConfig>> ReadConfigs() {
  const std::string path = COHORT_SOURCE_DIR "/tests/golden/models/configs.jsonl.gz";
  ASSIGN_OR_RETURN(const std::string text, ReadGzip(path));
  std::vector<KerasConfig> configs;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    KerasConfig one;
    one.json = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!one.json.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has a line that is not an object"));
    }
    one.name = one.json.value("name", "");
    one.keras = one.json.value("keras", "");
    configs.push_back(std::move(one));
  }
  return configs;
}

std::set<std::string> ConfigsNotYet() {
  std::set<std::string> lines;
  std::ifstream file(COHORT_SOURCE_DIR "/tests/models/not_yet/configs.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

Verdict RunConfig(const KerasConfig& one, CaseKernels kernels) {
  const json form = json::parse(one.json.value("model", ""), nullptr, /*allow_exceptions=*/false);
  const absl::StatusOr<JobSpec> job = ParseCaseJob({{"keras", form}}, {{"optimizer", "sgd"}});
  if (!job.ok()) return Verdict::Refused(job.status());
  const absl::StatusOr<Model> model =
      Model::Create(job->model, 0, BatchOf(ArraysOf(one.json["inputs"])));
  if (!model.ok()) return Verdict::Refused(model.status());
  const absl::StatusOr<std::string> difference = Compare(*model, one.json, kernels);
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace cohort
