// Gradients where conventions differ (ties, bounds, zeros, infinities) against TensorFlow's
// (tests/golden/gradient_conventions/make.py). Finite differences cannot see any of them.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/program/cohort_ops.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/run/program_runner.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;
using Build = std::function<std::string(GraphBuilder& graph, const Names& x)>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One input: a vector, or a scalar if `scalar` is set.
struct Values {
  std::vector<float> values;
  bool scalar = false;
};

struct Case {
  std::vector<Values> inputs;
  Build build;
};

std::string Real(GraphBuilder& graph, float value) {
  return graph.Constant("real", Tensor::Scalar<float>(value));
}

std::string Reals(GraphBuilder& graph, const std::vector<float>& values) {
  const auto size = static_cast<int64_t>(values.size());
  return graph.Constant("reals", Tensor::FromVector(values, {size}));
}

std::string Ints(GraphBuilder& graph, const std::vector<int64_t>& values, Shape shape) {
  return graph.Constant("ints", Tensor::FromVector(values, std::move(shape)));
}

// The graph of one node.
Build Node(const std::string& op, std::vector<onnx::AttributeProto> attributes = {},
           const std::string& domain = "") {
  return [=](GraphBuilder& graph, const Names& x) { return graph.Op(op, x, attributes, domain); };
}

Build PowBy(float exponent) {
  return [=](GraphBuilder& graph, const Names& x) {
    return graph.Op("Pow", {x[0], Real(graph, exponent)});
  };
}

Build PowOf(float base) {
  return [=](GraphBuilder& graph, const Names& x) {
    return graph.Op("Pow", {Real(graph, base), x[0]});
  };
}

// Relu6 as the smaller one of 6 and a rectified x: at 6 the gradient goes to the constant.
std::string Relu6(GraphBuilder& graph, const Names& x) {
  return graph.Op("Min", {Real(graph, 6), graph.Op("Relu", x)});
}

std::string Clip(GraphBuilder& graph, const Names& x) {
  return graph.Op("Clip", {x[0], Real(graph, -1), Real(graph, 1)});
}

std::string Positive(GraphBuilder& graph, const Names& x) {
  return graph.Op("Greater", {x[0], Real(graph, 0)});
}

std::string WhereLog(GraphBuilder& graph, const Names& x) {
  return graph.Op("Where", {Positive(graph, x), graph.Op("Log", x), Real(graph, 0)});
}

std::string WhereInverse(GraphBuilder& graph, const Names& x) {
  const auto inverse = graph.Op("Div", {Real(graph, 1), x[0]});
  return graph.Op("Where", {Positive(graph, x), inverse, x[0]});
}

std::string Normalized(GraphBuilder& graph, const Names& x) {
  const auto square = graph.Op("ReduceSumSquare", x);
  const auto norm = graph.Op("Sqrt", {graph.Op("Max", {square, Real(graph, 1e-12f)})});
  const auto unit = graph.Op("Mul", {x[0], graph.Op("Reciprocal", {norm})});
  return graph.Op("Mul", {unit, Reals(graph, {1, 2})});
}

std::string Deviation(GraphBuilder& graph, const Names& x) {
  const auto distance = graph.Op("Sub", {x[0], graph.Op("ReduceMean", x)});
  const auto variance = graph.Op("ReduceMean", {graph.Op("Mul", {distance, distance})});
  return graph.Op("Sqrt", {variance});
}

std::string Largest(GraphBuilder& graph, const Names& x) {
  return graph.OpN("TopK", {x[0], Ints(graph, {2}, {1})}, 2)[0];
}

std::string Sorted(GraphBuilder& graph, const Names& x) {
  const auto ascending =
      graph.OpN("TopK", {x[0], Ints(graph, {3}, {1})}, 2, {IntAttribute("largest", 0)});
  return graph.Op("Mul", {ascending[0], Reals(graph, {1, 2, 3})});
}

std::string Pooled(GraphBuilder& graph, const Names& x) {
  const auto image = graph.Op("Reshape", {x[0], Ints(graph, {1, 1, 2, 2}, {4})});
  return graph.Op("MaxPool", {image}, {IntsAttribute("kernel_shape", {2, 2})});
}

Build ModOf(bool dividend) {
  return [=](GraphBuilder& graph, const Names& x) {
    const Names inputs = dividend ? Names{x[0], Real(graph, 3)} : Names{Real(graph, 7), x[0]};
    return graph.Op("Mod", inputs, {IntAttribute("fmod", 1)});
  };
}

std::string WeighedSoftmax(GraphBuilder& graph, const Names& x) {
  return graph.Op("Mul", {graph.Op("Softmax", x), Reals(graph, {1, 2})});
}

std::string Gathered(GraphBuilder& graph, const Names& x) {
  return graph.Op("Gather", {x[0], Ints(graph, {0, 0, 1}, {3})});
}

std::string Scattered(GraphBuilder& graph, const Names& x) {
  return graph.Op("ScatterND", {x[0], Ints(graph, {1, 1}, {2, 1}), x[1]});
}

// The binary crossentropy of the label 1 from logits: softplus(x) - x.
std::string CrossentropyOfLogits(GraphBuilder& graph, const Names& x) {
  return graph.Op("Sub", {graph.Op("Softplus", x), x[0]});
}

// 0 log x, whose logarithm is of 1 where the factor is 0.
std::string XLogY(GraphBuilder& graph, const Names& x) {
  const auto factor = Reals(graph, {0});
  const auto zero = graph.Op("Equal", {factor, Real(graph, 0)});
  const auto safe = graph.Op("Where", {zero, Real(graph, 1), x[0]});
  return graph.Op("Mul", {factor, graph.Op("Log", {safe})});
}

std::string DivNoNan(GraphBuilder& graph, const Names& x) {
  const auto zero = graph.Op("Equal", {x[1], Real(graph, 0)});
  const auto safe = graph.Op("Where", {zero, Real(graph, 1), x[1]});
  return graph.Op("Where", {zero, Real(graph, 0), graph.Op("Div", {x[0], safe})});
}

std::string Huber(GraphBuilder& graph, const Names& x) {
  const auto distance = graph.Op("Abs", x);
  const auto square = graph.Op("Mul", {graph.Op("Mul", {x[0], x[0]}), Real(graph, 0.5f)});
  const auto line = graph.Op("Sub", {distance, Real(graph, 0.5f)});
  const auto near = graph.Op("LessOrEqual", {distance, Real(graph, 1)});
  return graph.Op("Where", {near, square, line});
}

std::string ArgMaxOf(GraphBuilder& graph, const Names& x) {
  const auto to = IntAttribute("to", onnx::TensorProto::FLOAT);
  return graph.Op("Cast", {graph.Op("ArgMax", x)}, {to});
}

std::string CastOf(GraphBuilder& graph, const Names& x) {
  const auto whole = graph.Op("Cast", x, {IntAttribute("to", onnx::TensorProto::INT32)});
  return graph.Op("Cast", {whole}, {IntAttribute("to", onnx::TensorProto::FLOAT)});
}

std::string LogCosh(GraphBuilder& graph, const Names& x) {
  const auto sum = graph.Op("Add", {graph.Op("Exp", x), graph.Op("Exp", {graph.Op("Neg", x)})});
  return graph.Op("Log", {graph.Op("Mul", {sum, Real(graph, 0.5f)})});
}

void AddElementwiseCases(std::map<std::string, Case>& cases) {
  const auto alpha = [](float value) { return FloatAttribute("alpha", value); };
  cases["relu(0)"] = {{{{0}}}, Node("Relu")};
  cases["relu6(0,6)"] = {{{{0, 6}}}, Relu6};
  cases["abs(0)"] = {{{{0}}}, Node("Abs")};
  cases["sqrt(0)"] = {{{{0}}}, Node("Sqrt")};
  cases["pow(x,2) at 0"] = {{{{0}}}, PowBy(2)};
  cases["pow(x,0.5) at 0"] = {{{{0}}}, PowBy(0.5f)};
  cases["pow(x,0) at 0"] = {{{{0}}}, PowBy(0)};
  cases["pow(0,y) dy"] = {{{{2, 0, -1}}}, PowOf(0)};
  cases["pow(-2,y) dy y=2"] = {{{{2}}}, PowOf(-2)};
  cases["pow(x,3) at -2"] = {{{{-2}}}, PowBy(3)};
  cases["max(x,y) tie"] = {{{{1}}, {{1}}}, Node("Max")};
  cases["min(x,y) tie"] = {{{{1}}, {{1}}}, Node("Min")};
  cases["max(x,y) tie scalar"] = {{{{1, 1}}, {{1}, true}}, Node("Max")};
  cases["clip at bounds"] = {{{{-1, 1, 0, 2, -2}}}, Clip};
  cases["where NaN branch"] = {{{{0, -1, 2}}}, WhereLog};
  cases["where div0"] = {{{{0, 2}}}, WhereInverse};
  cases["log(0)"] = {{{{0}}}, Node("Log")};
  cases["softplus"] = {{{{100, -100, 0}}}, Node("Softplus")};
  cases["elu(0)"] = {{{{0}}}, Node("Elu")};
  cases["selu(0)"] = {{{{0}}}, Node("Selu")};
  cases["leaky(0)"] = {{{{0}}}, Node("LeakyRelu", {alpha(0.2f)})};
  cases["sign"] = {{{{1}}}, Node("Sign")};
  cases["floor"] = {{{{1.5f}}}, Node("Floor")};
  cases["round"] = {{{{1.5f}}}, Node("Round")};
  cases["mod x"] = {{{{4}}}, ModOf(true)};
  cases["mod y"] = {{{{3}}}, ModOf(false)};
  cases["bce logits"] = {{{{0}}}, CrossentropyOfLogits};
  cases["xlogy(0,0)"] = {{{{0}}}, XLogY};
  cases["hard_sigmoid kink"] = {{{{-2.5f, 2.5f}}}, Node("HardSigmoid", {alpha(0.2f)})};
  cases["erf"] = {{{{0, 5}}}, Node("Erf")};
  cases["x/0"] = {{{{1}}, {{0}}}, Node("Div")};
  cases["div_no_nan"] = {{{{1}}, {{0}}}, DivNoNan};
  cases["huber kink"] = {{{{1, -1}}}, Huber};
  cases["cast int"] = {{{{1.5f}}}, CastOf};
  cases["cosh log big"] = {{{{100}}}, LogCosh};
}

void AddOtherCases(std::map<std::string, Case>& cases) {
  cases["reduce_max ties"] = {{{{1, 3, 3, 3}}}, Node("ReduceMax")};
  cases["reduce_min ties"] = {{{{1, 1, 3}}}, Node("ReduceMin")};
  cases["reduce_prod zeros"] = {{{{2, 0, 3}}}, Node("ReduceProd")};
  cases["reduce_prod two zeros"] = {{{{2, 0, 0}}}, Node("ReduceProd")};
  cases["norm at 0"] = {{{{0, 0}}}, Node("ReduceL2")};
  cases["l2_normalize at 0"] = {{{{0, 0}}}, Normalized};
  cases["std at const"] = {{{{2, 2}}}, Deviation};
  cases["topk values"] = {{{{3, 3, 3, 1}}}, Largest};
  cases["sort ties"] = {{{{2, 2, 2}}}, Sorted};
  cases["maxpool ties"] = {{{{5, 5, 5, 5}}}, Pooled};
  cases["logsumexp -inf"] = {{{{-kInfinity, -kInfinity}}}, Node("ReduceLogSumExp")};
  cases["logsumexp mixed"] = {{{{-kInfinity, 0}}}, Node("ReduceLogSumExp")};
  cases["softmax -inf row"] = {{{{-kInfinity, -kInfinity}}}, WeighedSoftmax};
  cases["gather repeated"] = {{{{1, 2, 3}}}, Gathered};
  cases["scatter_nd update"] = {{{{1, 2, 3}}, {{5, 6}}}, Scattered};
  cases["argmax"] = {{{{1, 2}}}, ArgMaxOf};
}

// The cases that no graph of ours has: opset 17 lacks the cumulative product (whose gradient
// TensorFlow gets wrong at 0), the arc tangent of two arguments and scattered maxima.
const std::set<std::string>& WithoutOperator() {
  static const auto* const names =
      new std::set<std::string>{"cumprod zero", "atan2(0,0)", "scatter_nd max tie"};
  return *names;
}

double NumberOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  return text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
         : text == "inf" ? std::numeric_limits<double>::infinity()
                         : -std::numeric_limits<double>::infinity();
}

// The gradients of the sum of the case's result, with respect to each input.
std::vector<Tensor> GradientsOf(const Case& each, const Backend& backend) {
  GraphBuilder builder("case");
  Names names;
  std::vector<Tensor> inputs;
  for (const Values& input : each.inputs) {
    const Shape shape = input.scalar ? Shape{} : Shape{static_cast<int64_t>(input.values.size())};
    inputs.push_back(Tensor::FromVector(input.values, shape));
    names.push_back(
        builder.Input("x" + std::to_string(names.size()), DType::kFloat32, shape.dims()));
  }
  const auto loss =
      builder.Op("ReduceSum", {each.build(builder, names)}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const auto graph = AddGradients(*model, loss, names);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto compiled = CompileProgram(graph->model, backend.registry);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  const auto outputs = ProgramRunner(*compiled).Run(inputs, RunContext{});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return {};
  return {outputs->begin() + 1, outputs->end()};
}

void ExpectGradient(const Tensor& actual, const json& expected) {
  // TensorFlow gives no gradient where nothing flows, and a graph of ours gives zeros.
  for (int64_t i = 0; i < actual.num_elements(); ++i) {
    const json& element = expected.is_array() ? expected[static_cast<size_t>(i)] : expected;
    const double wanted = expected.is_null() ? 0 : NumberOf(element);
    const auto found = static_cast<double>(actual.data<float>()[i]);
    if (std::isnan(wanted) || std::isinf(wanted)) {
      EXPECT_EQ(std::isnan(found), std::isnan(wanted)) << "element " << i << " is " << found;
      if (!std::isnan(wanted)) {
        EXPECT_EQ(found, wanted) << "element " << i;
      }
    } else {
      EXPECT_NEAR(found, wanted, 1e-6 * std::max(1.0, std::abs(wanted))) << "element " << i;
    }
  }
}

TEST(GradientConvention, IsTensorFlows) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/gradient_conventions/gradients.json");
  const json golden = json::parse(file);
  std::map<std::string, Case> cases;
  AddElementwiseCases(cases);
  AddOtherCases(cases);
  ASSERT_EQ(golden.size(), 54u);
  for (const auto& [name, gradients] : golden.items()) {
    if (WithoutOperator().count(name) > 0) continue;
    ASSERT_TRUE(cases.count(name)) << name << " has no graph";
    for (const Backend& backend : {ReferenceBackend(), CpuBackend()}) {
      SCOPED_TRACE(name + " on " + backend.name);
      const std::vector<Tensor> actual = GradientsOf(cases.at(name), backend);
      ASSERT_EQ(actual.size(), gradients.size());
      for (size_t i = 0; i < actual.size(); ++i) ExpectGradient(actual[i], gradients[i]);
    }
  }
}

}  // namespace
}  // namespace cohort
