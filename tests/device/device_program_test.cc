// Programs on a device, of which a part stays on the processor, against the processor alone.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/program/cohort_ops.h"
#include "gtest/gtest.h"
#include "tests/device/device_programs.h"
#include "tests/device/train_graph.h"

namespace cohort {
namespace {

TEST_P(DeviceProgramTest, ValuesGoThereAndBack) {
  auto runner = Compile(ThereAndBack(), OpenStream());
  ASSERT_TRUE(runner.ok()) << runner.status();
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> inputs = {Floats({1, -2.0f - static_cast<float>(run), 3})};
    const auto outputs = (*runner)->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto expected = *RunOnHost(ThereAndBack(), inputs);
    EXPECT_EQ(Values((*outputs)[0]), Values(expected[0]));
    EXPECT_EQ((*outputs)[1].data<int64_t>()[0], 1);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(Values((*outputs)[2])[i], Values(expected[2])[i], 1e-5);
    }
  }
}

TEST_P(DeviceProgramTest, MemoryIsPlannedOnceAndOutputsAreOfTheHost) {
  auto runner = *Compile(ThereAndBack(), OpenStream());
  const std::vector<Tensor> inputs = {Floats({1, 2})};
  ASSERT_TRUE(runner->Run(inputs, RunContext{}).ok());
  const int64_t after_one = runner->memory().allocations;
  for (int run = 0; run < 3; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    for (const Tensor& output : *outputs) EXPECT_FALSE(IsOnDevice(output));
  }
  EXPECT_EQ(runner->memory().allocations, after_one);
}

// A sum that is read on both sides, what it is over another shape, what the processor makes of it,
// and an input.
onnx::ModelProto Leaves() {
  GraphBuilder builder("leaves");
  const std::string x = builder.Input("x", DType::kFloat32, {4});
  const std::string y = builder.Input("y", DType::kFloat32, {4});
  const std::string sum = builder.Op("Add", {builder.Op("Neg", {x}), builder.Op("Exp", {y})});
  builder.Output(sum);
  const std::string shape =
      builder.Constant("shape", Tensor::FromVector<int64_t>({2, 2}, Shape{2}));
  builder.Output(builder.Op("Reshape", {builder.Op("Sqrt", {builder.Op("Exp", {sum})}), shape}));
  builder.Output(builder.Op("ArgMax", {sum}));
  builder.Output(builder.Op("Neg", {x}));
  return *builder.Finish();
}

TEST_P(DeviceProgramTest, WhatIsLeftOnTheDeviceIsThereAndNoLaterRunsWriteIt) {
  const auto stream = OpenStream();
  const DeviceTarget target{device_, stream, {true, true, true, false}};
  const auto program = CompileProgram(Leaves(), host_, &target);
  ASSERT_TRUE(program.ok()) << program.status();
  ProgramRunner runner(*program, Buffer::Allocate, stream);
  std::vector<std::pair<std::vector<Tensor>, std::vector<Tensor>>> runs;
  for (int run = 0; run < 4; ++run) {
    const auto shift = static_cast<float>(run);
    const std::vector<Tensor> inputs = {Floats({1, -2, 3, shift}), Floats({shift, 0, 1, 2})};
    auto outputs = runner.Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (const size_t i : {0, 1}) EXPECT_TRUE(IsOnDevice((*outputs)[i])) << i;
    EXPECT_FALSE(IsOnDevice((*outputs)[2])) << "the processor computes it";
    EXPECT_FALSE(IsOnDevice((*outputs)[3])) << "nobody asked for it to be left";
    runs.emplace_back(*std::move(outputs), *RunOnHost(Leaves(), inputs));
  }
  for (auto& [outputs, expected] : runs) {
    for (const size_t i : {0, 1}) {
      Tensor host(outputs[i].dtype(), outputs[i].shape());
      stream->CopyToHost(outputs[i], host);
      ASSERT_TRUE(stream->Wait().ok());
      ASSERT_EQ(host.shape(), expected[i].shape());
      for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(Values(host)[k], Values(expected[i])[k], 1e-4);
    }
    EXPECT_EQ(outputs[2].data<int64_t>()[0], expected[2].data<int64_t>()[0]);
    EXPECT_EQ(Values(outputs[3]), Values(expected[3]));
  }
  const int64_t allocations = runner.memory().allocations;
  ASSERT_TRUE(
      runner.Run(std::vector<Tensor>{Floats({1, 2, 3, 4}), Floats({1, 2, 3, 4})}, RunContext{})
          .ok());
  EXPECT_EQ(runner.memory().allocations, allocations) << "it is planned once";
}

// Also in the first run, which has no arena, and where nothing is copied back at the end.
TEST_P(DeviceProgramTest, WhatTheProcessorMadeIsThereUntilTheDeviceHasReadIt) {
  GraphBuilder builder("there");
  const std::string x = builder.Input("x", DType::kInt64, {-1});
  const std::string cast = builder.Op("Cast", {x}, {IntAttribute("to", onnx::TensorProto::FLOAT)});
  builder.Output(builder.Op("Neg", {cast}));
  const auto stream = OpenStream();
  const DeviceTarget target{device_, stream, {true}};
  ProgramRunner runner(*CompileProgram(*builder.Finish(), host_, &target), Buffer::Allocate,
                       stream);
  for (int run = 0; run < 3; ++run) {
    const auto outputs = runner.Run(
        std::vector<Tensor>{Tensor::FromVector<int64_t>({1, 2, 3}, Shape{3})}, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    Tensor host(DType::kFloat32, Shape{3});
    stream->CopyToHost((*outputs)[0], host);
    ASSERT_TRUE(stream->Wait().ok());
    EXPECT_EQ(Values(host), (std::vector<float>{-1, -2, -3})) << "run " << run;
  }
}

TEST_P(DeviceProgramTest, OtherTypesStayOnTheProcessor) {
  GraphBuilder builder("doubles");
  builder.Output(builder.Op("Neg", {builder.Input("x", DType::kFloat64, {-1})}));
  const onnx::ModelProto model = *builder.Finish();
  auto runner = *Compile(model, OpenStream());
  const auto outputs =
      runner->Run(std::vector<Tensor>{Tensor::FromVector<double>({2}, Shape{1})}, RunContext{});
  EXPECT_EQ((*outputs)[0].data<double>()[0], -2);
}

TEST_P(DeviceProgramTest, ATrainStepComputesWhatTheProcessorDoes) {
  const auto graph = *MakeTrainGraph({.inputs = 20, .units = {12, 5}});
  std::vector<Tensor> inputs;
  uint64_t stream = 0;
  for (const auto& input : graph.model.graph().input()) {
    std::vector<int64_t> dims;
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      dims.push_back(dim.has_dim_value() ? dim.dim_value() : 7);
    }
    Tensor tensor(DType::kFloat32, Shape(absl::MakeConstSpan(dims)));
    const RandomStream values(++stream, "values");
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<float>()[i] = values.Uniform(static_cast<uint64_t>(i)) / 4;
    }
    inputs.push_back(std::move(tensor));
  }
  auto runner = *Compile(graph.model, OpenStream());
  const auto expected = *RunOnHost(graph.model, inputs);
  for (int run = 0; run < 2; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ((*outputs)[i].shape(), expected[i].shape());
      for (size_t k = 0; k < Values(expected[i]).size(); ++k) {
        EXPECT_NEAR(Values((*outputs)[i])[k], Values(expected[i])[k], 1e-5) << "output " << i;
      }
    }
  }
}

// A kernel reads a shape's values on the host, and shares or makes bytes where the others are.
TEST_P(DeviceProgramTest, ShapesAreReadOnTheHost) {
  GraphBuilder builder("shapes");
  const std::string y = builder.Op("Neg", {builder.Input("x", DType::kFloat32, {2, 3})});
  const std::string shape = builder.Constant("shape", Tensor::FromVector<int64_t>({3, 2}, {2}));
  const std::string turned = builder.Op("Reshape", {y, shape});
  const std::string flat = builder.Op("Flatten", {turned}, {IntAttribute("axis", 0)});
  const std::string like = builder.Op("ReshapeLike", {flat, y}, {}, kCohortDomain);
  const std::string zeros = builder.Op("ZerosLike", {like}, {}, kCohortDomain);
  builder.Output(builder.Op("Exp", {turned}));
  builder.Output(builder.Op("Sub", {zeros, builder.Op("Identity", {like})}));
  builder.Output(builder.Op("Size", {zeros}));
  const onnx::ModelProto model = *builder.Finish();
  auto runner = *Compile(model, OpenStream());
  const std::vector<Tensor> inputs = {Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3})};
  const auto expected = *RunOnHost(model, inputs);
  for (int run = 0; run < 2; ++run) {
    const auto outputs = runner->Run(inputs, RunContext{});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].shape(), (Shape{3, 2}));
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(Values((*outputs)[0])[i], Values(expected[0])[i], 1e-6);
    }
    EXPECT_EQ(Values((*outputs)[1]), Values(expected[1]));
    EXPECT_EQ((*outputs)[2].data<int64_t>()[0], 6);
  }
}

// What is copied to a device is read there later: nothing is written in its place before.
TEST_P(DeviceProgramTest, ValuesOfTheProcessorLiveUntilTheyAreCopied) {
  GraphBuilder builder("turns");
  for (const char* const name : {"a", "b", "c"}) {
    const std::string x = builder.Input(name, DType::kFloat32, {2, 3});
    builder.Output(builder.Op("Neg", {builder.Op("Transpose", {x})}));
  }
  const onnx::ModelProto model = *builder.Finish();
  auto runner = *Compile(model, OpenStream());
  std::vector<Tensor> inputs;
  for (const float first : {1.0f, 10.0f, 100.0f}) {
    inputs.push_back(Tensor::FromVector<float>(
        {first, first + 1, first + 2, first + 3, first + 4, first + 5}, {2, 3}));
  }
  const auto expected = *RunOnHost(model, inputs);
  for (int run = 0; run < 3; ++run) {
    const auto outputs = *runner->Run(inputs, RunContext{});
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Values(outputs[i]), Values(expected[i]));
  }
}

// Runs of which one needs more memory than the plan has, or shares what was not to be shared.
class DeviatingRuns : public DeviceProgramTest {
 protected:
  void Check(const onnx::ModelProto& model, const std::vector<std::vector<Tensor>>& runs) {
    auto runner = *Compile(model, OpenStream());
    for (const std::vector<Tensor>& inputs : runs) {
      const auto expected = *RunOnHost(model, inputs);
      const auto outputs = runner->Run(inputs, RunContext{});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ((*outputs)[i].shape(), expected[i].shape());
        const std::vector<float> wanted = Values(expected[i]);
        for (size_t k = 0; k < wanted.size(); ++k) {
          ASSERT_NEAR(Values((*outputs)[i])[k], wanted[k], 1e-5 * std::abs(wanted[k]));
        }
      }
    }
  }
  static Tensor SmallNumbers() {
    Tensor x(DType::kFloat32, {2, 300});
    for (int64_t i = 0; i < 600; ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 7) / 100;
    return x;
  }
};

TEST_P(DeviatingRuns, MoreMemoryThanThePlanHas) {
  const Tensor x = SmallNumbers();
  const auto axis = [](int64_t of) { return Tensor::FromVector<int64_t>({of}, Shape{1}); };
  Check(OneNode("", "ReduceSum", {x, axis(1)}),
        {{x, axis(1)}, {x, axis(0)}, {x, axis(1)}, {x, axis(0)}});
}

// Without training the result shares its input's bytes, which Exp overwrites.
TEST_P(DeviatingRuns, SharedWhereThePlanDoesNot) {
  GraphBuilder builder("drops");
  const std::string x = builder.Input("x", DType::kFloat32, {2, 300});
  const std::string training = builder.Input("training", DType::kBool, {});
  const std::string y = builder.Op("Neg", {x});
  const std::string ratio = builder.Constant("ratio", Tensor::Scalar<float>(0.5f));
  const std::string dropped = builder.OpN("Dropout", {y, ratio, training}, 1)[0];
  builder.Output(builder.Op("Exp", {y}));
  builder.Output(builder.Op("Neg", {dropped}));
  const auto inputs = [](bool trains) {
    return std::vector<Tensor>{SmallNumbers(), Tensor::Scalar<bool>(trains)};
  };
  Check(*builder.Finish(), {inputs(true), inputs(false), inputs(false), inputs(true)});
}

COHORT_ON_CUDA_DEVICES(DeviatingRuns);
COHORT_ON_CUDA_DEVICES(DeviceProgramTest);

}  // namespace
}  // namespace cohort
