// cohort.Recurrent against Keras 2.15 and 3.15: outputs and gradients of SimpleRNN, LSTM and GRU
// with masks, initial states and options (tests/golden/models), from Keras's weights.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/runtime/run/program_runner.h"
#include "tests/device/backends.h"
#include "tests/models/golden_case.h"

namespace cohort {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

// A Keras layer as nodes: its inputs and weights are graph inputs in Keras's shapes, and the loss
// is the sum of all outputs times the case's cotangents. Thread-compatible.
class LayerGraph {
 public:
  explicit LayerGraph(const ModelCase& one)
      : config_(one.json.at("config")), version_(one.version), graph_(one.name) {
    for (const char* key : {"inputs", "weights"}) {
      for (const GoldenTensor& each : TensorsOf(one.json, key)) Add(each);
    }
    const std::vector<GoldenTensor> cotangents = TensorsOf(one.json.at("gradients"), "cotangent");
    Build(one.class_name);
    std::string loss;
    for (size_t i = 0; i < cotangents.size(); ++i) {
      const auto factor = graph_.Constant("cotangent", ToTensor(cotangents[i]));
      const auto sum = graph_.Op("ReduceSum", {graph_.Op("Mul", {outputs_[i], factor})},
                                 {IntAttribute("keepdims", 0)});
      loss = loss.empty() ? sum : graph_.Op("Add", {loss, sum});
    }
    for (const std::string& output : outputs_) graph_.Output(output);
    auto model = graph_.Finish();
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return;
    auto backward = AddGradients(*model, loss, wrt_);
    EXPECT_TRUE(backward.ok()) << backward.status();
    if (backward.ok()) model_ = std::move(backward->model);
  }

  // Returns the outputs and then the gradients of inputs and weights.
  std::vector<Tensor> Run(const Backend& backend) const {
    const auto program = CompileProgram(model_, backend.registry);
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return {};
    const auto results = ProgramRunner(*program).Run(values_, RunContext{});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.value_or(std::vector<Tensor>());
  }

 private:
  std::string Add(const GoldenTensor& value) {
    const auto dims = value.shape.dims();
    names_.push_back(graph_.Input(value.name, value.dtype, dims));
    values_.push_back(ToTensor(value));
    if (value.dtype == DType::kFloat32) wrt_.push_back(names_.back());
    return names_.back();
  }
  // Returns the graph input whose name ends so, or "".
  std::string Find(const std::string& end) const {
    for (const std::string& name : names_) {
      const bool ends =
          name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
      if (ends) return name;
    }
    return "";
  }
  std::string Ints(const std::vector<int64_t>& values) {
    const auto size = static_cast<int64_t>(values.size());
    return graph_.Constant("ints", Tensor::FromVector(values, {size}));
  }
  bool Flag(const char* key) const { return config_.value(key, false); }

  // Returns rows in ONNX's order of gates: an LSTM's i, f, c, o become i, o, f, c.
  std::string Ordered(const std::string& rows) {
    if (cell_ != "LSTM") return rows;
    const Names parts = graph_.OpN("Split", {rows}, 4, {IntAttribute("axis", 0)});
    return graph_.Op("Concat", {parts[0], parts[3], parts[1], parts[2]}, {IntAttribute("axis", 0)});
  }
  std::string Weights(const std::string& kernel) {
    const std::string rows = graph_.Op("Transpose", {kernel}, {IntsAttribute("perm", {1, 0})});
    return graph_.Op("Unsqueeze", {Ordered(rows), Ints({0})});
  }
  std::string Bias() {
    const std::string bias = Find("/bias");
    if (bias.empty()) return "";
    if (cell_ == "GRU" && config_.value("reset_after", true)) {
      return graph_.Op("Reshape", {bias, Ints({1, -1})});
    }
    const std::string input = Ordered(bias);
    const std::string none = graph_.Op("ZerosLike", {input}, {}, kCohortDomain);
    const std::string both = graph_.Op("Concat", {input, none}, {IntAttribute("axis", 0)});
    return graph_.Op("Unsqueeze", {both, Ints({0})});
  }
  std::string State(const char* name) {
    const std::string state = Find(name);
    return state.empty() ? "" : graph_.Op("Unsqueeze", {state, Ints({first() ? 1 : 0})});
  }
  bool first() const { return !Flag("time_major"); }

  void AddFunctions(std::vector<onnx::AttributeProto>& attributes) const {
    onnx::AttributeProto names;
    names.set_name("activations");
    names.set_type(onnx::AttributeProto::STRINGS);
    onnx::AttributeProto alphas;
    alphas.set_name("activation_alpha");
    alphas.set_type(onnx::AttributeProto::FLOATS);
    const auto add = [&](const char* key) {
      const std::string name = config_.at(key);
      names.add_strings(name == "hard_sigmoid" ? "HardSigmoid" : name);
      if (name == "hard_sigmoid") alphas.add_floats(version_ == "k2.15" ? 0.2f : 1.0f / 6);
    };
    if (cell_ != "RNN") add("recurrent_activation");
    add("activation");
    if (cell_ == "LSTM") add("activation");
    attributes.push_back(names);
    if (alphas.floats_size() > 0) attributes.push_back(alphas);
  }

  void Build(const std::string& class_name) {
    cell_ = class_name == "SimpleRNN" ? "RNN" : class_name;
    const bool lstm = cell_ == "LSTM";
    Names inputs = {"x",
                    Weights(Find("/kernel")),
                    Weights(Find("/recurrent_kernel")),
                    Bias(),
                    Find("mask"),
                    State("initial_state_0"),
                    State("initial_state_1")};
    while (inputs.back().empty()) inputs.pop_back();
    std::vector<onnx::AttributeProto> attributes = {
        StringAttribute("cell", cell_), IntAttribute("layout", first() ? 1 : 0),
        IntAttribute("zero_output_for_mask", Flag("zero_output_for_mask")),
        IntAttribute("go_backwards", Flag("go_backwards"))};
    if (cell_ == "GRU") {
      attributes.push_back(IntAttribute("linear_before_reset", config_.value("reset_after", true)));
    }
    AddFunctions(attributes);
    const int states = !Flag("return_state") ? 0 : lstm ? 2 : 1;
    const Names results = graph_.OpN("Recurrent", inputs, 1 + states, attributes, kCohortDomain);
    const std::string direction = Ints({first() ? 2 : 1});
    std::string y = graph_.Op("Squeeze", {results[0], direction});
    if (!Flag("return_sequences")) {
      const auto last = graph_.Constant("last", Tensor::Scalar<int64_t>(-1));
      y = graph_.Op("Gather", {y, last}, {IntAttribute("axis", first() ? 1 : 0)});
    }
    outputs_.push_back(y);
    for (int i = 1; i <= states; ++i) {
      outputs_.push_back(
          graph_.Op("Squeeze", {results[static_cast<size_t>(i)], Ints({first() ? 1 : 0})}));
    }
  }

  const json& config_;
  const std::string version_;
  GraphBuilder graph_;
  std::string cell_;
  Names names_;
  Names wrt_;
  Names outputs_;
  std::vector<Tensor> values_;
  onnx::ModelProto model_;
};

bool IsJudged(const ModelCase& one) {
  const bool recurrent =
      one.class_name == "SimpleRNN" || one.class_name == "LSTM" || one.class_name == "GRU";
  // A stateful layer is called twice, which is no matter of the operator.
  return recurrent && one.json.at("calls").size() == 1;
}

void Judge(const ModelCase& one, const Backend& backend) {
  SCOPED_TRACE(one.version + " " + one.name + " on " + backend.name);
  const std::vector<Tensor> actual = LayerGraph(one).Run(backend);
  const json& gradients = one.json.at("gradients");
  size_t next = 0;
  const auto judge = [&](const json& parent, const char* key) {
    for (const GoldenTensor& expected : TensorsOf(parent, key)) {
      ASSERT_LT(next, actual.size());
      EXPECT_EQ(Difference(expected, actual[next++], ToleranceOf(parent)), "") << expected.name;
    }
  };
  judge(one.json, "outputs");
  judge(gradients, "inputs");
  judge(gradients, "weights");
}

TEST(KerasRecurrent, OutputsAndGradientsAreKerass) {
  int judged = 0;
  for (const std::string& version : ModelCaseVersions()) {
    const auto cases = ReadModelCases(version, "recurrent");
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const ModelCase& one : *cases) {
      if (!IsJudged(one)) continue;
      ++judged;
      Judge(one, CpuBackend());
      Judge(one, ReferenceBackend());
    }
  }
  EXPECT_EQ(judged, 130);
}

}  // namespace
}  // namespace cohort
