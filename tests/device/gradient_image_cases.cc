#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "tests/device/gradient_cases.h"

// Convolution, pooling, normalization, and a network of them.

namespace cohort {
namespace {

using Attributes = std::vector<onnx::AttributeProto>;
using Inputs = std::vector<std::string>;

onnx::AttributeProto Ints(const char* name, std::vector<int64_t> values) {
  return IntsAttribute(name, values);
}

GradientInput Data(std::vector<int64_t> dims) { return {std::move(dims), Fill::kData}; }

void AddConvolutions(std::vector<GradientCase>& cases) {
  cases.push_back({"Conv", {{{-1, 2, 4, 5}}, {{3, 2, 3, 2}}, {{3}}}, OneNode("Conv")});
  cases.push_back({"Conv_without_bias", {{{-1, 2, 4, 4}}, {{2, 2, 3, 3}}}, OneNode("Conv")});
  cases.push_back({"Conv_pads",
                   {{{-1, 1, 3, 4}}, {{2, 1, 3, 3}}},
                   OneNode("Conv", {Ints("pads", {1, 0, 2, 1})})});
  cases.push_back({"Conv_strides",
                   {{{-1, 1, 5, 6}}, {{2, 1, 2, 3}}},
                   OneNode("Conv", {Ints("strides", {2, 3})})});
  cases.push_back({"Conv_dilations",
                   {{{-1, 1, 6, 5}}, {{1, 1, 3, 2}}},
                   OneNode("Conv", {Ints("dilations", {2, 3})})});
  cases.push_back({"Conv_groups",
                   {{{-1, 4, 3, 3}}, {{6, 2, 2, 2}}},
                   OneNode("Conv", {IntAttribute("group", 2)})});
  for (const char* pad : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    cases.push_back({std::string("Conv_") + pad,
                     {{{-1, 1, 4, 5}}, {{2, 1, 2, 2}}},
                     OneNode("Conv", {StringAttribute("auto_pad", pad), Ints("strides", {2, 1})})});
  }
  cases.push_back({"Conv_line", {{{-1, 2, 6}}, {{3, 2, 3}}, {{3}}}, OneNode("Conv")});
  cases.push_back({"Conv_line_groups_dilations",
                   {{{-1, 4, 7}}, {{2, 2, 2}}, {{2}}},
                   OneNode("Conv", {IntAttribute("group", 2), Ints("dilations", {3}),
                                    Ints("strides", {2}), Ints("pads", {1, 2})})});
  cases.push_back({"Conv_volume",
                   {{{-1, 2, 3, 4, 3}}, {{2, 1, 2, 2, 2}}, {{2}}},
                   OneNode("Conv", {IntAttribute("group", 2), Ints("dilations", {1, 2, 1}),
                                    Ints("pads", {1, 0, 0, 0, 1, 0})})});
  cases.push_back({"Conv_empty", {{{0, 2, 4, 4}}, {{3, 2, 2, 2}}, {{3}}}, OneNode("Conv")});
}

void AddTransposedConvolutions(std::vector<GradientCase>& cases) {
  const auto add = [&](const char* name, std::vector<GradientInput> inputs, Attributes attributes) {
    cases.push_back({std::string("ConvTranspose_") + name, std::move(inputs),
                     OneNode("ConvTranspose", std::move(attributes))});
  };
  const auto strides = Ints("strides", {2, 3});
  add("plain", {{{-1, 2, 3, 2}}, {{2, 3, 2, 3}}, {{3}}}, {});
  add("without_bias", {{{-1, 2, 3, 2}}, {{2, 1, 2, 3}}}, {});
  add("pads", {{{-1, 1, 3, 4}}, {{1, 2, 3, 3}}}, {strides, Ints("pads", {1, 0, 2, 1})});
  add("output_padding", {{{-1, 1, 3, 2}}, {{1, 2, 1, 2}}, {{2}}},
      {strides, Ints("output_padding", {1, 2})});
  add("output_shape", {{{-1, 1, 3, 3}}, {{1, 2, 3, 3}}, {{2}}},
      {strides, Ints("output_shape", {6, 10})});
  add("dilations", {{{-1, 1, 3, 3}}, {{1, 1, 2, 2}}}, {strides, Ints("dilations", {2, 3})});
  add("groups", {{{-1, 4, 2, 3}}, {{4, 3, 2, 2}}, {{6}}}, {IntAttribute("group", 2)});
  for (const char* pad : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    add(pad, {{{-1, 1, 4, 3}}, {{1, 2, 3, 4}}}, {strides, StringAttribute("auto_pad", pad)});
  }
  add("line", {{{-1, 2, 4}}, {{2, 2, 3}}, {{2}}}, {Ints("strides", {2})});
  add("volume", {{{-1, 2, 2, 1, 3}}, {{2, 1, 2, 2, 2}}, {{2}}},
      {IntAttribute("group", 2), Ints("strides", {2, 1, 2})});
  add("ones", {{{-1, 1, 1, 1}}, {{1, 1, 1, 1}}, {{1}}}, {});
  add("empty", {{{0, 2, 3, 2}}, {{2, 3, 2, 3}}, {{3}}}, {});
}

void AddPooling(std::vector<GradientCase>& cases) {
  const auto kernel = Ints("kernel_shape", {2, 2});
  const auto strides = Ints("strides", {2, 2});
  for (const std::string op : {"MaxPool", "AveragePool"}) {
    cases.push_back({op, {{{-1, 2, 4, 6}}}, OneNode(op, {kernel, strides})});
    cases.push_back({op + "_overlapping",
                     {{{-1, 1, 5, 5}}},
                     OneNode(op, {Ints("kernel_shape", {3, 3}), Ints("pads", {1, 1, 1, 1})})});
    cases.push_back(
        {op + "_gaps", {{{-1, 1, 7, 7}}}, OneNode(op, {kernel, Ints("strides", {3, 3})})});
    cases.push_back({op + "_ceil",
                     {{{-1, 1, 5, 5}}},
                     OneNode(op, {kernel, strides, IntAttribute("ceil_mode", 1)})});
    cases.push_back({op + "_same",
                     {{{-1, 1, 5, 4}}},
                     OneNode(op, {Ints("kernel_shape", {3, 2}), strides,
                                  StringAttribute("auto_pad", "SAME_UPPER")})});
  }
  cases.push_back({"MaxPool_dilations",
                   {{{-1, 1, 5, 5}}},
                   OneNode("MaxPool", {kernel, Ints("dilations", {2, 3})})});
  cases.push_back({"AveragePool_count_include_pad",
                   {{{-1, 1, 4, 4}}},
                   OneNode("AveragePool", {kernel, strides, Ints("pads", {1, 0, 1, 0}),
                                           IntAttribute("count_include_pad", 1)})});
  cases.push_back({"GlobalAveragePool", {{{-1, 2, 3, 4}}}, OneNode("GlobalAveragePool")});
}

// In training mode the given statistics move only the running ones.
BuildCase BatchNorm(bool training) {
  return [=](GraphBuilder& builder, const Inputs& x, DType dtype) {
    const std::vector<double> ones = {0.5, 2};
    const auto constant = [&](const char* name) {
      Tensor value(dtype, Shape{2});
      for (int i = 0; i < 2; ++i) {
        if (dtype == DType::kFloat64) value.mutable_data<double>()[i] = ones[i];
        if (dtype == DType::kFloat32) value.mutable_data<float>()[i] = static_cast<float>(ones[i]);
      }
      return builder.Constant(name, value);
    };
    const Inputs inputs = {x[0], x[1], x[2], constant("mean"), constant("variance")};
    const Attributes attributes = {IntAttribute("training_mode", training ? 1 : 0),
                                   FloatAttribute("epsilon", 0.125f)};
    return builder.OpN("BatchNormalization", inputs, training ? 3 : 1, attributes)[0];
  };
}

// Through a scalar function, because the sum of what normalization gives is a constant of x.
BuildCase Squared(const BuildCase& build) {
  return [=](GraphBuilder& builder, const Inputs& x, DType dtype) {
    const auto y = build(builder, x, dtype);
    return builder.Op("Mul", {y, y});
  };
}

void AddRowNormalizations(std::vector<GradientCase>& cases) {
  const auto epsilon = FloatAttribute("epsilon", 0.125f);
  const auto layer = [&](const char* name, std::vector<GradientInput> inputs, int64_t axis) {
    cases.push_back(
        {std::string("LayerNormalization_") + name, std::move(inputs),
         Squared(OneNode("LayerNormalization", {IntAttribute("axis", axis), epsilon}))});
  };
  layer("rows", {{{-1, 5}}, {{5}}, {{5}}}, -1);
  layer("without_bias", {{{-1, 2, 3}}, {{3}}}, -1);
  layer("planes", {{{-1, 2, 3}}, {{2, 3}}, {{2, 3}}}, 1);
  layer("all", {{{2, 3}}, {{2, 3}}, {{2, 3}}}, 0);
  layer("ones", {{{-1, 1}}, {{1}}, {{1}}}, -1);
  layer("no_rows", {{{0, 3}}, {{3}}, {{3}}}, -1);
  const std::vector<GradientInput> image = {{{-1, 4, 2, 3}}, {{4}}, {{4}}};
  cases.push_back(
      {"InstanceNormalization", image, Squared(OneNode("InstanceNormalization", {epsilon}))});
  for (const int64_t groups : {0, 1, 2, 4}) {
    const Attributes attributes = {epsilon, IntAttribute("groups", groups)};
    const auto build = Squared(OneNode("GroupNormalization", attributes, kCohortDomain));
    const std::string name = "GroupNormalization_" + std::to_string(groups);
    cases.push_back({name, image, build});
    cases.push_back({name + "_rows", {{{-1, 4}}, {{4}}, {{4}}}, build});
  }
}

// A Resize to these sizes, or by these scales if there are no sizes.
BuildCase Resize(Attributes attributes, std::vector<int64_t> sizes,
                 std::vector<float> scales = {}) {
  return [=](GraphBuilder& builder, const Inputs& x, DType) {
    const auto count = static_cast<int64_t>(scales.size());
    Inputs inputs = {x[0], "", builder.Constant("scales", Tensor::FromVector(scales, {count}))};
    if (count == 0) inputs = {x[0], "", "", builder.Constant("sizes", Numbers(sizes))};
    return builder.Op("Resize", inputs, attributes);
  };
}

void AddResizings(std::vector<GradientCase>& cases) {
  const auto mode = [](const char* name) { return StringAttribute("mode", name); };
  const auto coordinates = [](const char* name) {
    return StringAttribute("coordinate_transformation_mode", name);
  };
  const std::vector<GradientInput> image = {{{2, 1, 4, 3}}};
  for (const char* each : {"nearest", "linear", "cubic"}) {
    const std::string name = std::string("Resize_") + each;
    cases.push_back({name + "_larger", image, Resize({mode(each)}, {2, 1, 7, 5})});
    cases.push_back({name + "_smaller", image, Resize({mode(each)}, {2, 1, 3, 1})});
    cases.push_back(
        {name + "_scales", {{{-1, 2, 3, 4}}}, Resize({mode(each)}, {}, {1, 1, 2.6f, 0.6f})});
    cases.push_back({name + "_line", {{{-1, 1, 5}}}, Resize({mode(each)}, {}, {1, 1, 1.4f})});
    cases.push_back({name + "_one", {{{2, 1, 1, 1}}}, Resize({mode(each)}, {2, 1, 3, 2})});
    cases.push_back({name + "_none", {{{0, 1, 2, 2}}}, Resize({mode(each)}, {0, 1, 3, 2})});
    for (const char* way : {"pytorch_half_pixel", "align_corners", "asymmetric"}) {
      cases.push_back(
          {name + "_" + way, image, Resize({mode(each), coordinates(way)}, {2, 1, 6, 2})});
    }
  }
  for (const char* nearest : {"round_prefer_ceil", "floor", "ceil"}) {
    cases.push_back({std::string("Resize_") + nearest, image,
                     Resize({StringAttribute("nearest_mode", nearest)}, {2, 1, 8, 2})});
  }
  cases.push_back({"Resize_keras_cubic", image,
                   Resize({mode("cubic"), FloatAttribute("cubic_coeff_a", -0.5f),
                           IntAttribute("exclude_outside", 1)},
                          {2, 1, 6, 7})});
  const BuildCase crop = [](GraphBuilder& builder, const Inputs& x, DType) {
    const std::vector<double> shares = {0, 0, 0.25, -0.25, 1, 1, 1.5, 0.75};
    const auto roi = builder.Constant("roi", Tensor::FromVector(shares, {8}));
    return builder.Op("Resize", {x[0], roi, "", builder.Constant("sizes", Numbers({2, 1, 5, 3}))},
                      {StringAttribute("mode", "linear"), FloatAttribute("extrapolation_value", 3),
                       StringAttribute("coordinate_transformation_mode", "tf_crop_and_resize")});
  };
  cases.push_back({"Resize_crop", image, crop});
}

std::string Network(GraphBuilder& builder, const Inputs& x, DType dtype) {
  auto y = builder.Op("Conv", {x[0], x[1], x[2]}, {Ints("pads", {1, 1, 1, 1})});
  y = BatchNorm(true)(builder, {y, x[3], x[4]}, dtype);
  y = builder.Op("Relu", {y});
  y = builder.Op("MaxPool", {y}, {Ints("kernel_shape", {2, 2}), Ints("strides", {2, 2})});
  y = builder.Op("Transpose", {y}, {Ints("perm", {0, 2, 3, 1})});
  y = builder.Op("Flatten", {y});
  return builder.Op("Softmax", {builder.Op("MatMul", {y, x[5]})});
}

}  // namespace

std::vector<GradientCase> ImageGradientCases() {
  std::vector<GradientCase> cases;
  AddConvolutions(cases);
  AddTransposedConvolutions(cases);
  AddPooling(cases);
  for (const bool training : {false, true}) {
    const std::string name = training ? "BatchNormalization_training" : "BatchNormalization";
    const GradientInput channel = {{2}};
    cases.push_back({name, {{{-1, 2, 3, 2}}, channel, channel}, Squared(BatchNorm(training))});
    cases.push_back({name + "_rows", {{{-1, 2}}, channel, channel}, Squared(BatchNorm(training))});
    cases.push_back({name + "_static", {{{5, 2}}, channel, channel}, BatchNorm(training)});
  }
  AddRowNormalizations(cases);
  AddResizings(cases);
  const auto reduction = [](const char* kind) { return StringAttribute("reduction", kind); };
  for (const char* kind : {"sum", "mean"}) {  // of one replica
    cases.push_back({std::string("AllReduce_") + kind,
                     {{{-1, 3}}},
                     OneNode("AllReduce", {reduction(kind)}, kCohortDomain)});
  }
  cases.push_back(
      {"AllGather", {{{-1, 3}}}, OneNode("AllGather", {IntAttribute("axis", 1)}, kCohortDomain)});
  cases.push_back(
      {"Network", {Data({-1, 1, 4, 4}), {{2, 1, 3, 3}}, {{2}}, {{2}}, {{2}}, {{8, 3}}}, Network});
  return cases;
}

}  // namespace cohort
