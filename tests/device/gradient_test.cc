// AddGradients against central differences: every case in double, with batches of 1 and 3, and the
// same graph in float32 against the double gradients. The reference kernels evaluate.

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "common/program/gradients.h"
#include "common/program/value_types.h"
#include "common/runtime/run/program_runner.h"
#include "tests/device/backends.h"
#include "tests/device/gradient_cases.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

void PrintTo(const GradientCase& each, std::ostream* out) { *out << each.name; }

namespace {

constexpr double kStep = 1e-5;       // truncation 1e-10, rounding 1e-11 of the loss
constexpr double kTolerance = 1e-6;  // relative to max(1, |gradient|)
constexpr double kFloatTolerance = 2e-4;

// The loss of a case is sum(y * r), r drawn at random, so that the gradient of y is not constant.
struct Graph {
  onnx::ModelProto until_y;
  onnx::ModelProto model;
  std::string y;
  std::string loss;
  std::vector<std::string> wrt;
};

bool HasGradient(const GradientInput& input) {
  return input.fill == Fill::kReal || input.fill == Fill::kPositive ||
         input.fill == Fill::kProbability;
}

bool IsInteger(const GradientInput& input) {
  return input.fill == Fill::kLabel || input.fill == Fill::kIndex;
}

absl::StatusOr<Graph> BuildGraph(const GradientCase& each, DType dtype) {
  GraphBuilder builder(each.name);
  std::vector<std::string> names;
  Graph graph;
  for (size_t i = 0; i < each.inputs.size(); ++i) {
    const GradientInput& input = each.inputs[i];
    names.push_back(builder.Input("x" + std::to_string(i), IsInteger(input) ? DType::kInt64 : dtype,
                                  input.dims));
    if (HasGradient(input)) graph.wrt.push_back(names.back());
  }
  const std::string y = graph.y = each.build(builder, names, dtype);
  builder.Output(y);
  auto forward = builder.Finish();
  if (!forward.ok()) return forward.status();
  graph.until_y = *forward;
  auto* r = forward->mutable_graph()->add_input();
  r->set_name("r");
  *r->mutable_type() = *ValueTypes(forward->graph()).Find(y);
  GraphBuilder longer(*forward);
  graph.loss = longer.Op("ReduceSum", {longer.Op("Mul", {y, "r"})}, {IntAttribute("keepdims", 0)});
  longer.Output(graph.loss);
  auto model = longer.Finish();
  if (!model.ok()) return model.status();
  graph.model = *std::move(model);
  return graph;
}

Tensor Fresh(const GradientInput& input, int64_t batch, SequenceRng& rng) {
  std::vector<int64_t> dims = input.dims;
  for (int64_t& dim : dims) dim = dim < 0 ? batch : dim;
  Tensor tensor(IsInteger(input) ? DType::kInt64 : DType::kFloat64, Shape(dims));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double u = rng.Uniform();
    const auto bound = static_cast<double>(input.bound);
    switch (input.fill) {
      case Fill::kReal:
        tensor.mutable_data<double>()[i] = 4 * u - 2;
        break;
      case Fill::kPositive:
        tensor.mutable_data<double>()[i] = 0.5 + 2 * u;
        break;
      case Fill::kProbability:
      case Fill::kData:
        tensor.mutable_data<double>()[i] = 0.05 + 0.9 * u;
        break;
      case Fill::kLabel:
        tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(bound * u);
        break;
      case Fill::kIndex:
        tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(std::floor(bound * (2 * u - 1)));
        break;
    }
  }
  return tensor;
}

Tensor ToFloat32(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat64) return tensor;
  Tensor narrow(DType::kFloat32, tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    narrow.mutable_data<float>()[i] = static_cast<float>(tensor.data<double>()[i]);
  }
  return narrow;
}

double At(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kFloat64 ? tensor.data<double>()[i]
                                           : static_cast<double>(tensor.data<float>()[i]);
}

// A model on the reference kernels; outputs by name. Thread-compatible.
class Evaluator {
 public:
  explicit Evaluator(const onnx::ModelProto& model) : model_(model) {
    const Backend backend = ReferenceBackend();
    auto program = CompileProgram(model, backend.registry);
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return;
    runner_ = std::make_unique<ProgramRunner>(*program);
    runner_->FillDeadMemory();
  }

  std::map<std::string, Tensor> Run(const std::vector<Tensor>& inputs) {
    std::map<std::string, Tensor> named;
    if (runner_ == nullptr) return named;
    const auto outputs = runner_->Run(inputs, RunContext{17, 3, 0});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) return named;
    for (int i = 0; i < model_.graph().output_size(); ++i) {
      named[model_.graph().output(i).name()] = (*outputs)[static_cast<size_t>(i)];
    }
    return named;
  }

 private:
  const onnx::ModelProto model_;
  std::unique_ptr<ProgramRunner> runner_;
};

// The case's inputs and then r, of the shape that y has for them.
std::vector<Tensor> DrawInputs(const GradientCase& each, const Graph& graph, int64_t batch,
                               SequenceRng& rng) {
  std::vector<Tensor> inputs;
  for (const GradientInput& input : each.inputs) inputs.push_back(Fresh(input, batch, rng));
  const Tensor y = Evaluator(graph.until_y).Run(inputs)[graph.y];
  const auto dims = y.shape().dims();
  inputs.push_back(Fresh({std::vector<int64_t>(dims.begin(), dims.end())}, batch, rng));
  return inputs;
}

double Difference(Evaluator& forward, const std::string& loss, std::vector<Tensor>& inputs,
                  size_t input, int64_t element) {
  const Tensor original = inputs[input];
  double value[2];
  for (const int side : {0, 1}) {
    Tensor moved = original.Clone();
    moved.mutable_data<double>()[element] += side == 0 ? -kStep : kStep;
    inputs[input] = moved;
    value[side] = At(forward.Run(inputs)[loss], 0);
  }
  inputs[input] = original;
  return (value[1] - value[0]) / (2 * kStep);
}

class GradientTest : public testing::TestWithParam<GradientCase> {};

void CheckBatch(const GradientCase& each, int64_t batch) {
  const uint64_t seed = StableHash(each.name) + static_cast<uint64_t>(batch);
  SCOPED_TRACE("batch " + std::to_string(batch) + ", seed " + std::to_string(seed) +
               " (of the name): device_test --gtest_filter='*Gradient*/" + each.name + "'");
  SequenceRng rng(seed);
  const auto graph = BuildGraph(each, DType::kFloat64);
  const auto narrow = BuildGraph(each, DType::kFloat32);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  const auto backward = AddGradients(graph->model, graph->loss, graph->wrt);
  const auto narrow_backward = AddGradients(narrow->model, narrow->loss, narrow->wrt);
  ASSERT_TRUE(backward.ok()) << backward.status();
  ASSERT_TRUE(narrow_backward.ok()) << narrow_backward.status();

  std::vector<Tensor> inputs = DrawInputs(each, *graph, batch, rng);
  std::vector<Tensor> narrow_inputs;
  for (const Tensor& input : inputs) narrow_inputs.push_back(ToFloat32(input));
  Evaluator forward(graph->model);
  const auto gradients = Evaluator(backward->model).Run(inputs);
  const auto narrow_gradients = Evaluator(narrow_backward->model).Run(narrow_inputs);
  ASSERT_FALSE(gradients.empty() || narrow_gradients.empty());

  size_t position = 0;
  for (size_t i = 0; i < each.inputs.size(); ++i) {
    if (!HasGradient(each.inputs[i])) continue;
    const Tensor& gradient = gradients.at(backward->gradients[position]);
    const Tensor& rough = narrow_gradients.at(narrow_backward->gradients[position++]);
    ASSERT_EQ(gradient.shape(), inputs[i].shape()) << "input " << i;
    ASSERT_EQ(rough.TypeString(), narrow_inputs[i].TypeString()) << "input " << i;
    for (int64_t k = 0; k < gradient.num_elements(); ++k) {
      const double expected = Difference(forward, graph->loss, inputs, i, k);
      const double scale = std::max(1.0, std::abs(expected));
      EXPECT_NEAR(At(gradient, k), expected, kTolerance * scale)
          << "input " << i << "[" << k << "]";
      EXPECT_NEAR(At(rough, k), At(gradient, k), kFloatTolerance * scale)
          << "float32, input " << i << "[" << k << "]";
    }
  }
}

TEST_P(GradientTest, AgreesWithDifferences) {
  CheckBatch(GetParam(), 3);
  CheckBatch(GetParam(), 1);
}

std::string CaseName(const testing::TestParamInfo<GradientCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Math, GradientTest, testing::ValuesIn(MathGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Product, GradientTest, testing::ValuesIn(ProductGradientCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Tensor, GradientTest, testing::ValuesIn(TensorGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Loss, GradientTest, testing::ValuesIn(LossGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Image, GradientTest, testing::ValuesIn(ImageGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Function, GradientTest, testing::ValuesIn(FunctionGradientCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Binary, GradientTest, testing::ValuesIn(BinaryGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Reduction, GradientTest, testing::ValuesIn(ReductionGradientCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Movement, GradientTest, testing::ValuesIn(MovementGradientCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Einsum, GradientTest, testing::ValuesIn(EinsumGradientCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Recurrent, GradientTest, testing::ValuesIn(RecurrentGradientCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Composite, GradientTest, testing::ValuesIn(CompositeGradientCases()),
                         CaseName);

}  // namespace
}  // namespace cohort
