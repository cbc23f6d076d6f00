// Shapes, indices and counts that a program's values give and that fit nothing: each is refused by
// an error that says so, before any memory is asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/runtime/run/program_runner.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

constexpr int64_t kHuge = int64_t{1} << 62;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLong = int64_t{1} << 31;

Tensor Ints(std::vector<int64_t> values) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

Tensor Floats(Shape shape) { return Tensor::Zeros(DType::kFloat32, std::move(shape)); }

absl::Status RunNode(const std::string& op, const std::vector<Tensor>& inputs,
                     const std::vector<onnx::AttributeProto>& attributes = {}, int outputs = 1) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(kOnnxOpset);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_name("node");
  node.set_op_type(op);
  for (const auto& attribute : attributes) *node.add_attribute() = attribute;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.add_input("x" + std::to_string(i));
    model.mutable_graph()->add_input()->set_name(node.input(static_cast<int>(i)));
  }
  for (int i = 0; i < outputs; ++i) {
    node.add_output("y" + std::to_string(i));
    model.mutable_graph()->add_output()->set_name(node.output(i));
  }
  const auto program = CompileProgram(model, CpuBackend().registry);
  if (!program.ok()) return program.status();
  return ProgramRunner(*program).Run(inputs, RunContext{}).status();
}

void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(text));
}

// Returns the most memory that the process has held so far.
int64_t PeakKilobytes() {
  struct rusage usage;
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

TEST(HostileShapes, ResultsThatAreTooLargeAreRefused) {
  ExpectRefused(RunNode("Expand", {Floats({1, 1}), Ints({kHuge, kHuge})}), "can count");
  ExpectRefused(RunNode("Expand", {Floats({1}), Ints({kHuge})}), "at most");
  ExpectRefused(RunNode("Expand", {Floats({1}), Ints({-2})}), "negative");
  ExpectRefused(RunNode("Expand", {Floats({1}), Ints(std::vector<int64_t>(65, 1))}), "rank");
  ExpectRefused(RunNode("Tile", {Floats({3}), Ints({kHuge})}), "cannot be repeated");
  ExpectRefused(RunNode("Tile", {Floats({3}), Ints({-1})}), "cannot be repeated");
  ExpectRefused(RunNode("Tile", {Floats({3}), Ints({1, 1})}), "2 repeats");
  ExpectRefused(RunNode("Pad", {Floats({3}), Ints({kMost, kMost})}), "too large");
  ExpectRefused(RunNode("Pad", {Floats({3}), Ints({kLeast, 0})}), "too large");
  ExpectRefused(RunNode("Pad", {Floats({3}), Ints({-2, -2})}), "negative");
  ExpectRefused(RunNode("Pad", {Floats({3}), Ints({3, 0})}, {StringAttribute("mode", "reflect")}),
                "too large");
  ExpectRefused(RunNode("Pad", {Floats({0}), Ints({1, 0})}, {StringAttribute("mode", "edge")}),
                "too large");
  ExpectRefused(RunNode("ConstantOfShape", {Ints({kHuge, 4})}), "can count");
  ExpectRefused(RunNode("ConstantOfShape", {Ints({-1})}), "negative");
  ExpectRefused(RunNode("Unsqueeze", {Floats({1}), Ints(std::vector<int64_t>(70, 0))}), "rank 71");
}

TEST(HostileShapes, WindowsThatAreTooLargeAreRefused) {
  const Tensor image = Floats({1, 1, 2, 2});
  const Tensor none = Floats({0, 1, 2, 2});
  const auto list = [](const char* name, std::vector<int64_t> values) {
    return IntsAttribute(name, values);
  };
  const int64_t far = int64_t{1} << 30;
  const auto kernel = list("kernel_shape", {2, 2});
  for (const Tensor& x : {image, none}) {
    const auto pads = list("pads", {far, far, far, far});
    const std::string large = x.num_elements() > 0 ? "at most" : "more positions";
    ExpectRefused(RunNode("Conv", {x, image}, {pads}), "more positions");
    ExpectRefused(RunNode("MaxPool", {x}, {kernel, pads}), "more positions");
    ExpectRefused(RunNode("AveragePool", {x}, {kernel, pads}), "more positions");
    ExpectRefused(RunNode("ConvTranspose", {x, image}, {list("strides", {far, far})}), large);
    ExpectRefused(RunNode("ConvTranspose", {x, image}, {list("output_shape", {far, far})}), large);
  }
  const int64_t edge = int64_t{1} << 14;
  ExpectRefused(RunNode("MaxPool", {Floats({100, 1, 2, 2})},
                        {kernel, list("pads", {edge, edge, edge, edge})}),
                "at most");
  const auto transpose = [&](const onnx::AttributeProto& attribute) {
    return RunNode("ConvTranspose", {image, image}, {attribute});
  };
  ExpectRefused(transpose(list("output_shape", {kMost, 1})), "output_shape holds");
  ExpectRefused(transpose(list("output_shape", {3})), "output_shape has 1");
  ExpectRefused(transpose(list("output_padding", {-1, 0})), "output_padding holds");
  ExpectRefused(transpose(list("output_padding", {1, 0})), "below the stride");
  ExpectRefused(transpose(list("pads", {2, 2, 2, 2})), "cut more");
  ExpectRefused(transpose(list("strides", {kMost, 1})), "strides holds");
  ExpectRefused(RunNode("ConvTranspose", {image, Floats({2, 1, 2, 2})}), "do not fit");
  ExpectRefused(RunNode("ConvTranspose", {image, image}, {IntAttribute("group", 3)}), "do not fit");
  ExpectRefused(RunNode("ConvTranspose", {image, image, Floats({2})}), "for 1 channels");
}

TEST(HostileShapes, EquationsThatDoNotFitAreRefused) {
  const Tensor square = Floats({3, 3});
  const auto einsum = [](const char* equation, const std::vector<Tensor>& inputs) {
    return RunNode("Einsum", inputs, {StringAttribute("equation", equation)});
  };
  ExpectRefused(einsum("i1->i", {square}), "'1' is neither");
  ExpectRefused(einsum("...i...->i", {square}), "'.' is neither");
  ExpectRefused(einsum("ij->i->j", {square}), "several '->'");
  ExpectRefused(einsum("ij->ii", {square}), "'i' twice");
  ExpectRefused(einsum("ij->k", {square}), "no input has the label 'k'");
  ExpectRefused(einsum("ijk->i", {square}), "names 3 axes");
  ExpectRefused(einsum("i->i", {square}), "names 1 axes");
  ExpectRefused(einsum("ij,jk->ik", {square}), "2 terms for 1 inputs");
  ExpectRefused(einsum("ij,jk->ik", {square, Floats({2, 3})}), "meets an axis of 3");
  const Tensor line = Floats({int64_t{1} << 16});
  ExpectRefused(einsum("i,j->ij", {line, line}), "at most");
  EXPECT_TRUE(einsum("i,j->", {Floats({0}), line}).ok());
}

TEST(HostileShapes, NormalizationsThatDoNotFitAreRefused) {
  const Tensor x = Floats({2, 6});
  const auto layer = [&](const Tensor& scale, int64_t axis) {
    return RunNode("LayerNormalization", {x, scale}, {IntAttribute("axis", axis)});
  };
  ExpectRefused(layer(Floats({6}), 2), "axis 2");
  ExpectRefused(layer(Floats({6}), kLeast), "axis");
  ExpectRefused(layer(Floats({1}), 1), "needs the shape [6]");
  ExpectRefused(RunNode("LayerNormalization", {x, Floats({6})}, {IntAttribute("stash_type", 16)}),
                "stash_type 16");
  ExpectRefused(RunNode("InstanceNormalization", {Floats({6}), Floats({6}), Floats({6})}),
                "[batch, channels, ...]");
  ExpectRefused(RunNode("InstanceNormalization", {x, Floats({5}), Floats({6})}),
                "needs the shape [6]");
}

TEST(HostileShapes, ResizingsThatDoNotFitAreRefused) {
  const Tensor x = Floats({2, 3});
  const Tensor none = Floats({0});
  const auto sizes = [&](std::vector<int64_t> values) {
    return RunNode("Resize", {x, none, none, Ints(std::move(values))});
  };
  const auto scales = [&](std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return RunNode("Resize", {x, none, Tensor::FromVector(values, {count})});
  };
  ExpectRefused(sizes({kHuge, kHuge}), "can count");
  ExpectRefused(sizes({kLong, 2}), "at most");
  ExpectRefused(sizes({-1, 2}), "negative");
  ExpectRefused(sizes({2}), "sizes has 1");
  ExpectRefused(scales({1}), "scales has 1");
  for (const float scale : {0.0f, -1.0f, 1e30f, kInfinity, std::nanf("")}) {
    ExpectRefused(scales({1, scale}), "is not possible");
  }
  ExpectRefused(scales({1e9f, 1e9f}), "is not possible");
  ExpectRefused(scales({1e8f, 1e8f}), "at most");
  ExpectRefused(RunNode("Resize", {x}), "either scales or sizes");
  const Tensor two = Tensor::FromVector<float>({2, 2}, {2});
  ExpectRefused(RunNode("Resize", {x, none, two, Ints({2, 2})}), "either scales or sizes");
  ExpectRefused(RunNode("Resize", {Floats({0, 3}), none, none, Ints({2, 3})}), "no elements");
  ExpectRefused(RunNode("Resize", {x, none, two}, {IntAttribute("antialias", 1)}), "antialias");
  ExpectRefused(RunNode("Resize", {x, none, two}, {StringAttribute("mode", "lanczos")}),
                "use one of nearest, linear, cubic");
  const auto crop = StringAttribute("coordinate_transformation_mode", "tf_crop_and_resize");
  ExpectRefused(RunNode("Resize", {x, none, none, Ints({2, 2})}, {crop}), "needs a roi");
  ExpectRefused(RunNode("Resize", {x, two, none, Ints({2, 2})}, {crop}), "roi has 2");
  const Tensor many = Floats({1, 1, 1, 1});
  ExpectRefused(RunNode("Resize", {many, none, none, Ints({2, 2, 2, 2})},
                        {StringAttribute("mode", "linear")}),
                "along 4 axes");
}

TEST(HostileShapes, RecurrentLayersThatDoNotFitAreRefused) {
  const Tensor x = Floats({3, 2, 5});
  const Tensor w = Floats({1, 16, 5});
  const Tensor r = Floats({1, 16, 4});
  const auto lstm = [](const std::vector<Tensor>& inputs, const onnx::AttributeProto& attribute) {
    return RunNode("LSTM", inputs, {attribute});
  };
  const auto plain = IntAttribute("layout", 0);
  ExpectRefused(lstm({Floats({3, 5}), w, r}, plain), "needs rank 3");
  ExpectRefused(lstm({x, Floats({1, 16, 4}), r}, plain), "w is");
  ExpectRefused(lstm({x, w, Floats({1, 15, 4})}, plain), "r is");
  ExpectRefused(lstm({x, w, Floats({2, 16, 4})}, plain), "r is");
  ExpectRefused(lstm({x, w, Floats({1, 0, 0})}, plain), "hidden_size 0");
  ExpectRefused(lstm({x, w, Floats({0, 1, kHuge})}, plain), "hidden_size 0");
  ExpectRefused(lstm({x, w, r}, IntAttribute("hidden_size", 5)), "hidden_size 5");
  ExpectRefused(lstm({x, w, r, Floats({1, 16})}, plain), "b is");
  const Tensor b = Floats({1, 32});
  for (const int32_t length : {-1, 4}) {
    ExpectRefused(lstm({x, w, r, b, Tensor::FromVector<int32_t>({1, length}, {2})}, plain),
                  "which is not in [0, 3]");
  }
  const Tensor lengths = Tensor::FromVector<int32_t>({1, 3}, {2});
  ExpectRefused(lstm({x, w, r, b, lengths, Floats({1, 2, 3})}, plain), "initial_h is");
  ExpectRefused(lstm({x, w, r}, FloatAttribute("clip", 1)), "clip is not supported");
  ExpectRefused(lstm({x, w, r}, IntAttribute("input_forget", 1)), "input_forget");
  ExpectRefused(lstm({x, w, r}, StringAttribute("direction", "up")), "unknown direction 'up'");
  onnx::AttributeProto names;
  names.set_name("activations");
  names.set_type(onnx::AttributeProto::STRINGS);
  for (const char* name : {"Sigmoid", "Gelu", "Tanh"}) names.add_strings(name);
  ExpectRefused(lstm({x, w, r}, names), "unknown activation 'Gelu'");
  names.add_strings("Tanh");
  ExpectRefused(lstm({x, w, r}, names), "4 names, not 3");
  // A long sequence without examples takes no memory.
  EXPECT_TRUE(lstm({Floats({kLong, 0, 5}), w, r}, plain).ok());
}

// Results without elements whose other axis is long: no kernel may ask for memory for the axis.
TEST(HostileShapes, LongAxesOfEmptyResultsTakeNoMemory) {
  const int64_t before = PeakKilobytes();
  EXPECT_TRUE(RunNode("Pad", {Floats({0, 1}), Ints({0, 0, 0, kLong - 1})}).ok());
  EXPECT_TRUE(RunNode("Tile", {Floats({0, 1}), Ints({1, kLong})}).ok());
  EXPECT_TRUE(RunNode("Expand", {Floats({0, 1}), Ints({0, kLong})}).ok());
  const Tensor empty = Floats({0, kLong});
  EXPECT_TRUE(RunNode("Slice", {empty, Ints({0}), Ints({kMost})}).ok());
  EXPECT_TRUE(RunNode("Pad", {empty, Ints({0, 0, 0, -1})}).ok());
  EXPECT_LT(PeakKilobytes() - before, int64_t{1} << 20);
}

TEST(HostileShapes, RangesWithoutAnEndAreRefused) {
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return RunNode("Range", {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
  };
  ExpectRefused(range(0, 1, 0), "no end");
  ExpectRefused(range(kLeast, kMost, 1), "too many");
  EXPECT_TRUE(range(kLeast, kMost, kMost).ok());
  EXPECT_TRUE(range(kMost, kLeast, kLeast).ok());
  const auto real = [](float start, float limit, float delta) {
    return RunNode("Range", {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
  };
  ExpectRefused(real(0, 1, 0), "no end");
  for (const float each : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    ExpectRefused(real(0, each, 1), "finite");
    ExpectRefused(real(each, 1, 1), "finite");
    ExpectRefused(real(0, 1, each), "finite");
  }
  EXPECT_TRUE(real(0, -1, 1).ok());
}

TEST(HostileShapes, SlicesTakeAnyBounds) {
  const auto slice = [](int64_t start, int64_t end, int64_t step) {
    return RunNode("Slice", {Floats({5}), Ints({start}), Ints({end}), Ints({0}), Ints({step})});
  };
  ExpectRefused(slice(0, 5, 0), "step is 0");
  for (const int64_t start : {kLeast, kMost, int64_t{0}}) {
    for (const int64_t end : {kLeast, kMost, int64_t{2}}) {
      for (const int64_t step : {kLeast, kMost, int64_t{1}, int64_t{-1}}) {
        EXPECT_TRUE(slice(start, end, step).ok()) << start << " " << end << " " << step;
      }
    }
  }
  ExpectRefused(RunNode("Slice", {Floats({5}), Ints({0}), Ints({1}), Ints({7})}), "axis 7");
  ExpectRefused(RunNode("Slice", {Floats({5}), Ints({0, 0}), Ints({1, 1}), Ints({0, -1})}),
                "twice");
  ExpectRefused(RunNode("Slice", {Floats({5}), Ints({0}), Ints({1, 2})}), "equally many");
}

TEST(HostileShapes, IndicesOutsideTheDataAreRefused) {
  const Tensor far = Tensor::FromVector<int64_t>({kLeast}, {1, 1});
  const Tensor near = Tensor::FromVector<int64_t>({3}, {1, 1});
  const Tensor data = Floats({3, 1});
  for (const Tensor& indices : {far, near}) {
    ExpectRefused(RunNode("GatherElements", {data, indices}), "is not in [-3, 3)");
    ExpectRefused(RunNode("GatherND", {data, indices}), "is not in [-3, 3)");
    ExpectRefused(RunNode("ScatterElements", {data, indices, Floats({1, 1})}), "is not in [-3, 3)");
    ExpectRefused(RunNode("ScatterND", {data, indices, Floats({1, 1})}), "is not in [-3, 3)");
  }
  const Tensor zero = Tensor::FromVector<int64_t>({0}, {1, 1});
  ExpectRefused(RunNode("ScatterND", {data, zero, Floats({2, 1})}), "updates");
  ExpectRefused(RunNode("GatherND", {data, Ints({0, 0, 0})}), "do not fit");
  ExpectRefused(RunNode("GatherND", {data, zero}, {IntAttribute("batch_dims", kMost)}),
                "do not fit");
  ExpectRefused(RunNode("GatherND", {data, zero}, {IntAttribute("batch_dims", -1)}), "do not fit");
  ExpectRefused(RunNode("GatherElements", {data, Tensor::FromVector<int64_t>({0, 0}, {1, 2})}),
                "do not fit");
  for (const int64_t count : {kLeast, int64_t{-1}, int64_t{2}, kMost}) {
    ExpectRefused(RunNode("TopK", {data, Ints({count})}, {}, 2), "between 0 and 1");
  }
  ExpectRefused(RunNode("ReverseSequence", {Floats({3, 1}), Ints({4})}), "length 4");
  ExpectRefused(RunNode("Split", {Floats({3}), Ints({kMost, kMost})}, {}, 2), "cannot be cut");
  ExpectRefused(RunNode("Split", {Floats({3}), Ints({4, -1})}, {}, 2), "cannot be cut");
  ExpectRefused(RunNode("Split", {Floats({3})}, {}, 2), "cannot be cut");
  ExpectRefused(RunNode("Squeeze", {Floats({3, 1}), Ints({0})}), "extent 1");
  EXPECT_TRUE(RunNode("Trilu", {Floats({3, 2}), Tensor::Scalar(kLeast)}).ok());
  EXPECT_TRUE(RunNode("Trilu", {Floats({3, 2}), Tensor::Scalar(kMost)}).ok());
}

}  // namespace
}  // namespace cohort
