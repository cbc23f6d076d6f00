#include <utility>

#include "tests/device/op_parity_cases.h"

namespace cohort {
namespace {

using Attributes = std::vector<onnx::AttributeProto>;

// Image, then kernel [outputs, inputs of a group, ...], then attributes.
void AddConvolutions(std::vector<OpCase>& cases) {
  const auto ints = [](const char* name, std::vector<int64_t> values) {
    return IntsAttribute(name, values);
  };
  struct Convolution {
    Shape x;
    Shape w;
    Shape y;
    Attributes attributes = {};
  };
  for (const Convolution& each : std::vector<Convolution>{
           {{2, 1, 9, 9}, {5, 1, 3, 3}, {2, 5, 7, 7}},
           {{3, 16, 13, 13}, {32, 16, 3, 3}, {3, 32, 11, 11}},
           {{1, 3, 1, 1}, {2, 3, 1, 1}, {1, 2, 1, 1}},
           {{0, 3, 5, 5}, {2, 3, 3, 3}, {0, 2, 3, 3}},
           {{2, 3, 8, 7},
            {4, 3, 3, 2},
            {2, 4, 4, 4},
            {ints("strides", {2, 2}), ints("pads", {1, 0, 0, 1})}},
           {{2, 3, 9, 9}, {4, 3, 3, 3}, {2, 4, 5, 5}, {ints("dilations", {2, 2})}},
           {{2, 4, 6, 6},
            {6, 2, 3, 3},
            {2, 6, 6, 6},
            {IntAttribute("group", 2), StringAttribute("auto_pad", "SAME_UPPER")}},
           {{2, 8, 6, 6},
            {8, 1, 3, 3},
            {2, 8, 3, 3},
            {IntAttribute("group", 8), ints("strides", {2, 2}),
             StringAttribute("auto_pad", "SAME_LOWER")}},
           {{2, 3, 7}, {4, 3, 3}, {2, 4, 5}},
           {{2, 4, 17},
            {6, 2, 3},
            {2, 6, 7},
            {IntAttribute("group", 2), ints("strides", {2}), ints("dilations", {2})}},
           {{1, 2, 4, 4, 4}, {3, 2, 2, 2, 2}, {1, 3, 3, 3, 3}},
           {{2, 4, 5, 6, 4},
            {4, 2, 2, 3, 2},
            {2, 4, 3, 6, 3},
            {IntAttribute("group", 2), ints("strides", {2, 1, 1}),
             ints("pads", {1, 1, 0, 0, 1, 0})}}}) {
    cases.push_back({kOnnx, "Conv", {{each.x}, {each.w}}, each.attributes});
    cases.push_back({kOnnx, "Conv", {{each.x}, {each.w}, {Shape{each.w.dim(0)}}}, each.attributes});
    cases.push_back({kCohort, "ConvInputGrad", {{each.y}, {each.w}, {each.x}}, each.attributes});
    cases.push_back({kCohort, "ConvWeightGrad", {{each.y}, {each.x}, {each.w}}, each.attributes});
  }
}

// Image, kernel [inputs, outputs of a group, ...], result, attributes.
void AddTransposedConvolutions(std::vector<OpCase>& cases) {
  const auto ints = [](const char* name, std::vector<int64_t> values) {
    return IntsAttribute(name, values);
  };
  struct Transposed {
    Shape x;
    Shape w;
    Shape y;
    Attributes attributes = {};
  };
  const auto strides = ints("strides", {2, 3});
  for (const Transposed& each : std::vector<Transposed>{
           {{2, 5, 7, 7}, {5, 1, 3, 3}, {2, 1, 9, 9}},
           {{3, 32, 11, 11}, {32, 16, 3, 3}, {3, 16, 13, 13}},
           {{1, 2, 1, 1}, {2, 3, 1, 1}, {1, 3, 1, 1}},
           {{0, 2, 3, 3}, {2, 3, 3, 3}, {0, 3, 5, 5}},
           {{2, 3, 4, 5}, {3, 2, 3, 3}, {2, 2, 6, 14}, {strides, ints("pads", {1, 0, 2, 1})}},
           {{2, 3, 4, 5}, {3, 2, 1, 2}, {2, 2, 8, 16}, {strides, ints("output_padding", {1, 2})}},
           {{2, 3, 3, 3}, {3, 2, 3, 3}, {2, 2, 6, 10}, {strides, ints("output_shape", {6, 10})}},
           {{2, 3, 4, 4},
            {3, 2, 2, 2},
            {2, 2, 7, 7},
            {ints("dilations", {2, 2}), ints("output_padding", {1, 1})}},
           {{2, 6, 5, 4}, {6, 3, 2, 3}, {2, 6, 6, 6}, {IntAttribute("group", 2)}},
           {{2, 3, 5, 4},
            {3, 2, 4, 2},
            {2, 2, 10, 12},
            {strides, StringAttribute("auto_pad", "SAME_UPPER")}},
           {{2, 3, 5, 4},
            {3, 2, 3, 4},
            {2, 2, 10, 12},
            {strides, StringAttribute("auto_pad", "SAME_LOWER")}},
           {{2, 4, 5}, {4, 3, 3}, {2, 3, 11}, {ints("strides", {2})}},
           {{1, 4, 3, 2, 4},
            {4, 2, 2, 2, 3},
            {1, 4, 6, 3, 6},
            {IntAttribute("group", 2), ints("strides", {2, 1, 1})}}}) {
    const auto& flags = each.attributes;
    cases.push_back({kOnnx, "ConvTranspose", {{each.x}, {each.w}}, flags});
    cases.push_back({kOnnx, "ConvTranspose", {{each.x}, {each.w}, {Shape{each.y.dim(1)}}}, flags});
    cases.push_back({kCohort, "ConvTransposeInputGrad", {{each.y}, {each.w}, {each.x}}, flags});
    cases.push_back({kCohort, "ConvTransposeWeightGrad", {{each.y}, {each.x}, {each.w}}, flags});
  }
  for (OpCase& each : cases) {
    if (each.op.find("Conv") == 0) each.slack = kLongSums;
  }
}

void AddPooling(std::vector<OpCase>& cases) {
  const auto window = [](std::vector<int64_t> kernel, std::vector<int64_t> strides,
                         std::vector<int64_t> pads) {
    return Attributes{IntsAttribute("kernel_shape", kernel), IntsAttribute("strides", strides),
                      IntsAttribute("pads", pads)};
  };
  struct Pooling {
    Shape x;
    Shape y;
    Attributes attributes;
  };
  for (const Pooling& each : std::vector<Pooling>{
           {{2, 3, 26, 26}, {2, 3, 13, 13}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{2, 3, 27, 27}, {2, 3, 13, 13}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{3, 1, 2, 2}, {3, 1, 1, 1}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{2, 2, 3, 43}, {2, 2, 1, 21}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{2, 2, 40, 5}, {2, 2, 20, 2}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{2, 3, 40, 37}, {2, 3, 38, 35}, window({3, 3}, {1, 1}, {0, 0, 0, 0})},
           {{1, 2, 7, 8}, {1, 2, 3, 4}, window({3, 2}, {3, 2}, {1, 0, 1, 1})},
           {{0, 2, 4, 4}, {0, 2, 2, 2}, window({2, 2}, {2, 2}, {0, 0, 0, 0})},
           {{2, 2, 11}, {2, 2, 5}, window({3}, {2}, {0, 0})},
           {{1, 1, 4, 4, 4}, {1, 1, 2, 2, 2}, window({2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0})}}) {
    for (const char* op : {"MaxPool", "AveragePool"}) {
      cases.push_back({kOnnx, op, {{each.x}}, each.attributes});
      cases.push_back({kCohort, std::string(op) + "Grad", {{each.y}, {each.x}}, each.attributes});
    }
    Attributes counted = each.attributes;
    counted.push_back(IntAttribute("count_include_pad", 1));
    cases.push_back({kOnnx, "AveragePool", {{each.x}}, counted});
    cases.push_back({kCohort, "AveragePoolGrad", {{each.y}, {each.x}}, counted});
    cases.push_back({kOnnx, "MaxPool", {{each.x}}, each.attributes, 2});
    if (each.x.dim(0) > 0) cases.push_back({kOnnx, "GlobalAveragePool", {{each.x}}});
  }
  const Attributes ceiling = {IntsAttribute("kernel_shape", {3, 3}),
                              IntsAttribute("strides", {2, 2}), IntAttribute("ceil_mode", 1)};
  const Attributes spread = {IntsAttribute("kernel_shape", {2, 2}),
                             IntsAttribute("dilations", {2, 3})};
  for (const auto& [attributes, y] :
       {std::pair{ceiling, Shape{2, 2, 4, 4}}, std::pair{spread, Shape{2, 2, 6, 5}}}) {
    cases.push_back({kOnnx, "MaxPool", {{{2, 2, 8, 8}}}, attributes});
    cases.push_back({kCohort, "MaxPoolGrad", {{y}, {{2, 2, 8, 8}}}, attributes});
  }
  // Equal elements: the first one gets the gradient.
  cases.push_back({kCohort,
                   "MaxPoolGrad",
                   {{{2, 2, 4, 4}}, {{2, 2, 8, 8}, OpFill::kOneHot}},
                   window({2, 2}, {2, 2}, {0, 0, 0, 0})});
}

void AddNormalization(std::vector<OpCase>& cases) {
  for (const Shape& shape :
       {Shape{4, 3, 5, 7}, Shape{2, 3, 26, 26}, Shape{33, 10}, Shape{1, 4}, Shape{5, 1, 1},
        Shape{3, 2, 4, 2, 2}, Shape{3, 2, 47, 61}, Shape{0, 3}}) {
    const Shape channels = {shape.dim(1)};
    const OpInput statistics = {channels, OpFill::kPositive};
    for (const int64_t training : {0, 1}) {
      if (training == 1 && shape.dim(0) == 0) continue;  // 0 / 0
      const Attributes attributes = {FloatAttribute("epsilon", 1e-3f),
                                     IntAttribute("training_mode", training)};
      Attributes forward = attributes;
      forward.push_back(FloatAttribute("momentum", 0.75f));
      cases.push_back({kOnnx,
                       "BatchNormalization",
                       {{shape}, {channels}, {channels}, statistics, statistics},
                       forward,
                       training ? 3 : 1,
                       {},
                       kLongSums});
      cases.push_back({kCohort,
                       "BatchNormalizationGrad",
                       {{shape}, {shape}, {channels}, statistics, statistics},
                       attributes,
                       3,
                       {},
                       kLongSums});
    }
  }
}

void AddRowNormalizations(std::vector<OpCase>& cases) {
  struct Rows {
    Shape x;
    int64_t axis;
    Shape scale;
    Shape statistics;
  };
  for (const Rows& each : std::vector<Rows>{{{33, 100}, -1, {100}, {33, 1}},
                                            {{130, 7}, -1, {7}, {130, 1}},
                                            {{4, 5, 6}, 1, {5, 6}, {4, 1, 1}},
                                            {{4, 5, 6}, 0, {4, 5, 6}, {1, 1, 1}},
                                            {{3, 1}, 1, {1}, {3, 1}},
                                            {{0, 3}, 1, {3}, {0, 1}}}) {
    const Attributes attributes = {IntAttribute("axis", each.axis),
                                   FloatAttribute("epsilon", 1e-3f)};
    const auto add = [&](const char* domain, const char* op, std::vector<OpInput> inputs,
                         int outputs) {
      cases.push_back({domain, op, std::move(inputs), attributes, outputs, {}, kLongSums});
    };
    const OpInput statistics = {each.statistics, OpFill::kPositive};
    add(kOnnx, "LayerNormalization", {{each.x}, {each.scale}, {each.scale}}, 3);
    add(kOnnx, "LayerNormalization", {{each.x}, {each.scale}}, 1);
    add(kCohort, "LayerNormalizationGrad", {{each.x}, {each.x}, {each.scale}}, 3);
    add(kCohort, "LayerNormalizationGrad",
        {{each.x}, {each.x}, {each.scale}, statistics, statistics}, 3);
    add(kCohort, "LayerNormalizationGrad", {{each.x}, {each.x}, {each.scale}}, 1);
  }
  for (const Shape& x : {Shape{3, 6, 5, 7}, Shape{2, 6, 40}, Shape{5, 6}, Shape{0, 6, 2}}) {
    const Shape channels = {x.dim(1)};
    for (const int64_t groups : {0, 1, 2, 6}) {
      const Attributes attributes = {IntAttribute("groups", groups)};
      cases.push_back({kCohort,
                       "GroupNormalization",
                       {{x}, {channels}, {channels}},
                       attributes,
                       1,
                       {},
                       kLongSums});
      cases.push_back({kCohort,
                       "GroupNormalizationGrad",
                       {{x}, {x}, {channels}},
                       attributes,
                       3,
                       {},
                       kLongSums});
    }
    cases.push_back(
        {kOnnx, "InstanceNormalization", {{x}, {channels}, {channels}}, {}, 1, {}, kLongSums});
  }
}

void AddResizings(std::vector<OpCase>& cases) {
  const Tensor none(DType::kFloat32, Shape{0});
  const Tensor sizes = Tensor::FromVector<int64_t>({2, 3, 7, 5}, {4});
  const Tensor no_rows = Tensor::FromVector<int64_t>({0, 3, 7, 5}, {4});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const Attributes attributes = {StringAttribute("mode", mode)};
    cases.push_back({kOnnx, "Resize", {{{2, 3, 4, 6}}}, attributes, 1, {none, none, sizes}});
    cases.push_back({kOnnx, "Resize", {{{0, 3, 4, 6}}}, attributes, 1, {none, none, no_rows}});
    cases.push_back({kCohort,
                     "ResizeGrad",
                     {{{2, 3, 7, 5}}, {{2, 3, 4, 6}}},
                     attributes,
                     1,
                     {none, none, sizes}});
  }
}

}  // namespace

std::vector<OpCase> ImageOpCases() {
  std::vector<OpCase> cases;
  AddConvolutions(cases);
  AddTransposedConvolutions(cases);
  AddPooling(cases);
  AddNormalization(cases);
  AddRowNormalizations(cases);
  AddResizings(cases);
  return cases;
}

}  // namespace cohort
