#include "common/program/tensor_proto.h"
#include "tests/device/op_parity_cases.h"

namespace cohort {
namespace {

Tensor Ints(std::vector<int64_t> values) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

void AddCuts(std::vector<OpCase>& cases) {
  const std::vector<Tensor> forward = {Ints({1, -3}), Ints({3, 99}), Ints({0, 2}), Ints({1, 2})};
  const std::vector<Tensor> backward = {Ints({-1}), Ints({-99}), Ints({1}), Ints({-2})};
  cases.push_back({kOnnx, "Slice", {{{4, 5, 6}}}, {}, 1, forward});
  cases.push_back({kOnnx, "Slice", {{{4, 5, 6}}}, {}, 1, backward});
  cases.push_back({kOnnx, "Slice", {{{0, 5}}}, {}, 1, {Ints({0}), Ints({3})}});
  cases.push_back({kCohort, "SliceGrad", {{{2, 5, 2}}, {{4, 5, 6}}}, {}, 1, forward});
  cases.push_back({kCohort, "SliceGrad", {{{4, 3, 6}}, {{4, 5, 6}}}, {}, 1, backward});
  const auto axis = IntAttribute("axis", 1);
  cases.push_back({kOnnx, "Split", {{{3, 6, 2}}}, {axis}, 3});
  cases.push_back({kOnnx, "Split", {{{3, 6, 2}}}, {axis}, 3, {Ints({1, 0, 5})}});
  cases.push_back({kOnnx, "Trilu", {{{2, 4, 5}}}});
  cases.push_back({kOnnx,
                   "Trilu",
                   {{{5, 4}, OpFill::kMask}},
                   {IntAttribute("upper", 0)},
                   1,
                   {Tensor::Scalar<int64_t>(-2)}});
  cases.push_back({kOnnx, "ReverseSequence", {{{4, 3, 2}}}, {}, 1, {Ints({4, 0, 3})}});
  cases.push_back({kOnnx,
                   "ReverseSequence",
                   {{{3, 4, 2}}},
                   {IntAttribute("batch_axis", 0), IntAttribute("time_axis", 1)},
                   1,
                   {Ints({4, 1, 3})}});
}

void AddGrowth(std::vector<OpCase>& cases) {
  for (const char* mode : {"constant", "reflect", "edge"}) {
    const std::vector<onnx::AttributeProto> flags = {StringAttribute("mode", mode)};
    const Tensor pads = Ints({1, 2, -1, 3});
    cases.push_back({kOnnx, "Pad", {{{3, 5}}}, flags, 1, {pads}});
    cases.push_back({kCohort, "PadGrad", {{{3, 10}}, {{3, 5}}}, flags, 1, {pads}});
  }
  cases.push_back({kOnnx, "Pad", {{{0, 2}}}, {}, 1, {Ints({1, 0, 1, 0})}});
  cases.push_back({kOnnx, "Pad", {{{3}}}, {}, 1, {Ints({1, 2}), Tensor::Scalar<float>(0.5f)}});
  cases.push_back({kOnnx, "Expand", {{{3, 1}}}, {}, 1, {Ints({2, 1, 4})}});
  cases.push_back({kOnnx, "Expand", {{{}, OpFill::kLabel}}, {}, 1, {Ints({2, 3})}});
  cases.push_back({kOnnx, "Expand", {{{1, 3}}}, {}, 1, {Ints({0, 1})}});
  cases.push_back({kOnnx, "Tile", {{{3, 2}}}, {}, 1, {Ints({2, 3})}});
  cases.push_back({kOnnx, "Tile", {{{3, 2}}}, {}, 1, {Ints({0, 1})}});
  cases.push_back({kCohort, "TileGrad", {{{6, 6}}, {{3, 2}}}, {}, 1, {Ints({2, 3})}});
  cases.push_back({kOnnx, "Squeeze", {{{3, 1, 2}}}, {}, 1, {Ints({-2})}});
  cases.push_back({kOnnx, "Squeeze", {{{1, 3, 1}}}});
  cases.push_back({kOnnx, "Unsqueeze", {{{3, 2}}}, {}, 1, {Ints({-1, 0})}});
  cases.push_back({kOnnx, "Shape", {{{3, 0, 2}}}, {IntAttribute("start", -2)}});
  cases.push_back(
      {kOnnx,
       "Range",
       {},
       {},
       1,
       {Tensor::Scalar<int64_t>(5), Tensor::Scalar<int64_t>(-4), Tensor::Scalar<int64_t>(-2)}});
  cases.push_back(
      {kOnnx,
       "Range",
       {},
       {},
       1,
       {Tensor::Scalar<float>(0.5f), Tensor::Scalar<float>(2), Tensor::Scalar<float>(0.25f)}});
  onnx::AttributeProto value;
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = ToTensorProto("value", Tensor::FromVector<int32_t>({7}, {1}));
  cases.push_back({kOnnx, "ConstantOfShape", {}, {value}, 1, {Ints({2, 3})}});
  cases.push_back({kOnnx, "ConstantOfShape", {}, {}, 1, {Ints({2, 0})}});
}

void AddIndexed(std::vector<OpCase>& cases) {
  const OpInput labels = {{4, 3}, OpFill::kLabel};
  const auto add = StringAttribute("reduction", "add");
  const auto mul = StringAttribute("reduction", "mul");
  cases.push_back({kOnnx, "GatherElements", {{{5, 3}}, labels}});
  cases.push_back({kOnnx, "GatherElements", {{{4, 7}}, labels}, {IntAttribute("axis", -1)}});
  cases.push_back({kOnnx, "GatherND", {{{3, 3, 3, 2}}, labels}});
  cases.push_back({kOnnx,
                   "GatherND",
                   {{{4, 3, 2}}, {{4, 5, 1}, OpFill::kLabel}},
                   {IntAttribute("batch_dims", 1)}});
  cases.push_back({kCohort, "GatherNDGrad", {{{4, 2}}, {{3, 3, 3, 2}}, labels}});
  for (const auto& attributes : std::vector<std::vector<onnx::AttributeProto>>{{}, {add}, {mul}}) {
    cases.push_back({kOnnx, "ScatterElements", {{{5, 3}}, labels, {{4, 3}}}, attributes});
    cases.push_back({kOnnx, "ScatterND", {{{3, 3, 3, 2}}, labels, {{4, 2}}}, attributes});
  }
  const OpInput nothing = {{0, 1}, OpFill::kLabel};
  cases.push_back({kOnnx, "ScatterND", {{{3, 2}}, nothing, {{0, 2}}}});
  cases.push_back({kOnnx, "GatherND", {{{3, 2}}, nothing}});
}

}  // namespace

std::vector<OpCase> MovementOpCases() {
  std::vector<OpCase> cases;
  AddCuts(cases);
  AddGrowth(cases);
  AddIndexed(cases);
  return cases;
}

}  // namespace cohort
