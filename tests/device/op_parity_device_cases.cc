#include "tests/device/op_parity_cases.h"

namespace cohort {
namespace {

// Sums that a device adds up in several parts, the last of them shorter.
void AddLongSums(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{3, 6007}, Shape{3, 1501}, Shape{1501, 3}, Shape{2, 1501, 3}}) {
    for (const int64_t axis : {0, 1}) {
      cases.push_back({kOnnx,
                       "ReduceMean",
                       {{shape}},
                       {IntAttribute("keepdims", 1), IntsAttribute("axes", {axis})}});
    }
    cases.push_back({kCohort, "ReduceToShapeOf", {{shape}, {{}}}, {}, 1, {}, kLongSums});
  }
}

void AddSpecialValues(std::vector<OpCase>& cases) {
  const OpInput special = {{13, 10}, OpFill::kSpecial};
  for (const char* op : {"Relu", "Neg", "Exp", "Sqrt", "Log", "Sigmoid", "Tanh"}) {
    cases.push_back({kOnnx, op, {special}});
  }
  for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad"}) {
    cases.push_back({kCohort, op, {{{13, 10}}, special}});
  }
  const auto window = IntsAttribute("kernel_shape", {2, 2});
  const OpInput image = {{1, 2, 9, 9}, OpFill::kSpecial};
  cases.push_back({kOnnx, "MaxPool", {image}, {window}, 2});
  cases.push_back({kCohort, "MaxPoolGrad", {{{1, 2, 8, 8}}, image}, {window}});
  for (const OpFill fill : {OpFill::kSpecial, OpFill::kLow, OpFill::kPositive, OpFill::kOneHot}) {
    const OpInput prediction = {{13, 10}, fill};
    const OpInput truth = {{13, 10}, OpFill::kOneHot};
    const OpInput label = {{13}, OpFill::kLabel};
    cases.push_back({kOnnx, "Softmax", {prediction}});
    cases.push_back({kOnnx, "LogSoftmax", {prediction}});
    for (const int64_t from_logits : {0, 1}) {
      const std::vector<onnx::AttributeProto> flag = {IntAttribute("from_logits", from_logits)};
      cases.push_back({kCohort, "CategoricalCrossentropy", {truth, prediction}, flag});
      cases.push_back({kCohort, "SparseCategoricalCrossentropy", {label, prediction}, flag});
      cases.push_back({kCohort, "CategoricalCrossentropyGrad", {{{13}}, truth, prediction}, flag});
      cases.push_back(
          {kCohort, "SparseCategoricalCrossentropyGrad", {{{13}}, label, prediction}, flag});
    }
  }
}

void AddWindows(std::vector<OpCase>& cases) {
  // A last window behind the input.
  const std::vector<onnx::AttributeProto> behind = {IntsAttribute("kernel_shape", {1, 1}),
                                                    IntsAttribute("strides", {3, 3}),
                                                    IntAttribute("ceil_mode", 1)};
  cases.push_back({kOnnx, "AveragePool", {{{1, 2, 5, 5}}}, behind});
  cases.push_back({kCohort, "AveragePoolGrad", {{{1, 2, 3, 3}}, {{1, 2, 5, 5}}}, behind});
  // Inputs between the taps of a window.
  const std::vector<onnx::AttributeProto> spread = {IntsAttribute("kernel_shape", {2, 2}),
                                                    IntsAttribute("dilations", {2, 3})};
  cases.push_back({kOnnx, "AveragePool", {{{2, 2, 8, 8}}}, spread});
  cases.push_back({kCohort, "AveragePoolGrad", {{{2, 2, 6, 5}}, {{2, 2, 8, 8}}}, spread});
  // Padded on the left alone.
  const std::vector<onnx::AttributeProto> lower = {StringAttribute("auto_pad", "SAME_LOWER")};
  const OpInput x = {{2, 3, 6, 6}};
  const OpInput w = {{4, 3, 2, 2}};
  const OpInput y = {{2, 4, 6, 6}};
  cases.push_back({kOnnx, "Conv", {x, w}, lower, 1, {}, kLongSums});
  cases.push_back({kCohort, "ConvInputGrad", {y, w, x}, lower, 1, {}, kLongSums});
  cases.push_back({kCohort, "ConvWeightGrad", {y, x, w}, lower, 1, {}, kLongSums});
}

}  // namespace

std::vector<OpCase> DeviceOpCases() {
  std::vector<OpCase> cases;
  AddLongSums(cases);
  AddSpecialValues(cases);
  AddWindows(cases);
  return cases;
}

}  // namespace cohort
