#include "tests/device/gradient_cases.h"

// Operators that cut, pad, repeat, reverse, gather and scatter.

namespace cohort {
namespace {

using Inputs = std::vector<std::string>;

std::vector<onnx::AttributeProto> Mode(const std::string& mode) {
  return {StringAttribute("mode", mode)};
}

std::vector<onnx::AttributeProto> Added() { return {StringAttribute("reduction", "add")}; }

// The pads in the middle, between the data and the constant.
std::string PadByInput(GraphBuilder& builder, const Inputs& x, DType) {
  return builder.Op("Pad", {x[0], builder.Constant("pads", Numbers({0, 2, 1, -1})), x[1]});
}

// Parts of different sizes, of which the second one is not used.
std::string SplitUnused(GraphBuilder& builder, const Inputs& x, DType) {
  const auto sizes = builder.Constant("sizes", Numbers({1, 2, 1}));
  const auto parts = builder.OpN("Split", {x[0], sizes}, 3, {IntAttribute("axis", 1)});
  return builder.Op("Mul", {parts[0], parts[2]});
}

std::string SplitEqually(GraphBuilder& builder, const Inputs& x, DType) {
  const auto parts = builder.OpN("Split", {x[0]}, 2, {IntAttribute("axis", -1)});
  return builder.Op("Mul", {parts[0], parts[1]});
}

std::string SplitEmpty(GraphBuilder& builder, const Inputs& x, DType) {
  const auto sizes = builder.Constant("sizes", Numbers({0, 3}));
  const auto parts = builder.OpN("Split", {x[0], sizes}, 2, {IntAttribute("axis", 1)});
  return builder.Op("Concat", {parts[1], parts[0]}, {IntAttribute("axis", 1)});
}

// A tensor's elements times its size along axis 1, read from the tensor's shape.
std::string TimesSize(GraphBuilder& builder, const Inputs& x, DType dtype) {
  const auto size = builder.Op("Shape", x, {IntAttribute("start", 1), IntAttribute("end", 2)});
  const auto real = builder.Op("Cast", {size}, {IntAttribute("to", static_cast<int64_t>(dtype))});
  return builder.Op("Mul", {x[0], real});
}

// x plus 0, 1, 2, ... along the last axis.
std::string PlusRange(GraphBuilder& builder, const Inputs& x, DType dtype) {
  const auto scalar = [&](int64_t value) {
    return builder.Constant("scalar", Tensor::Scalar<int64_t>(value));
  };
  const auto range = builder.Op("Range", {scalar(0), scalar(4), scalar(1)});
  const auto real = builder.Op("Cast", {range}, {IntAttribute("to", static_cast<int64_t>(dtype))});
  return builder.Op("Add", {x[0], real});
}

void AddCuts(std::vector<GradientCase>& cases) {
  const auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> ends,
                        std::vector<int64_t> axes, std::vector<int64_t> steps) {
    return NodeWith("Slice", {Numbers(starts), Numbers(ends), Numbers(axes), Numbers(steps)});
  };
  cases.push_back({"Slice", {{{-1, 5}}}, NodeWith("Slice", {Numbers({0, 1}), Numbers({9, 4})})});
  cases.push_back({"Slice_axis", {{{-1, 5, 2}}}, slice({-3}, {-1}, {1}, {1})});
  cases.push_back({"Slice_steps", {{{4, 7}}}, slice({3, 6}, {0, -9}, {0, 1}, {-2, -3})});
  cases.push_back({"Slice_nothing", {{{-1, 5}}}, slice({4}, {2}, {1}, {1})});
  cases.push_back({"Slice_of_empty", {{{0, 5}}}, slice({0}, {2}, {1}, {1})});
  cases.push_back({"Split_unused", {{{-1, 4}}}, SplitUnused});
  cases.push_back({"Split_equally", {{{-1, 3, 4}}}, SplitEqually});
  cases.push_back({"Split_empty", {{{2, 3}}}, SplitEmpty});
  cases.push_back({"Trilu", {{{-1, 3, 4}}}, OneNode("Trilu")});
  cases.push_back({"Trilu_lower",
                   {{{4, 3}}},
                   NodeWith("Trilu", {Tensor::Scalar<int64_t>(-1)}, {IntAttribute("upper", 0)})});
  cases.push_back({"Trilu_empty", {{{2, 0, 3}}}, OneNode("Trilu")});
  cases.push_back(
      {"ReverseSequence", {{{4, 3, 2}}}, NodeWith("ReverseSequence", {Numbers({4, 1, 2})})});
  cases.push_back({"ReverseSequence_rows",
                   {{{2, 4}}},
                   NodeWith("ReverseSequence", {Numbers({3, 4})},
                            {IntAttribute("batch_axis", 0), IntAttribute("time_axis", 1)})});
}

void AddGrowth(std::vector<GradientCase>& cases) {
  const auto pads = [](std::vector<int64_t> values, std::vector<onnx::AttributeProto> attributes) {
    return NodeWith("Pad", {Numbers(values)}, attributes);
  };
  cases.push_back({"Pad", {{{-1, 3}}}, pads({1, 0, 2, 1}, {})});
  cases.push_back({"Pad_negative", {{{3, 4}}}, pads({-1, 2, 1, -3}, {})});
  cases.push_back({"Pad_reflect", {{{-1, 4}}}, pads({0, 3, 0, 2}, Mode("reflect"))});
  cases.push_back({"Pad_edge", {{{3, 4}}}, pads({1, 2, 2, 1}, Mode("edge"))});
  cases.push_back({"Pad_empty", {{{0, 2}}}, pads({1, 0, 1, 0}, {})});
  cases.push_back({"Pad_constant", {{{-1, 4}}, {{}}}, PadByInput});
  cases.push_back({"Expand", {{{-1, 1}}}, NodeWith("Expand", {Numbers({2, 1, 4})})});
  cases.push_back({"Expand_smaller", {{{3, 2}}}, NodeWith("Expand", {Numbers({1, 2})})});
  cases.push_back({"Expand_scalar", {{{}}}, NodeWith("Expand", {Numbers({2, 3})})});
  cases.push_back({"Expand_to_empty", {{{1, 3}}}, NodeWith("Expand", {Numbers({0, 3})})});
  cases.push_back({"Tile", {{{-1, 2}}}, NodeWith("Tile", {Numbers({2, 3})})});
  cases.push_back({"Tile_once", {{{2, 3}}}, NodeWith("Tile", {Numbers({1, 1})})});
  cases.push_back({"Tile_never", {{{2, 3}}}, NodeWith("Tile", {Numbers({0, 2})})});
  cases.push_back({"Tile_empty", {{{0, 3}}}, NodeWith("Tile", {Numbers({2, 1})})});
  cases.push_back({"Squeeze", {{{-1, 1, 3}}}, NodeWith("Squeeze", {Numbers({1})})});
  cases.push_back({"Squeeze_all", {{{1, 3, 1}}}, OneNode("Squeeze")});
  cases.push_back({"Unsqueeze", {{{-1, 3}}}, NodeWith("Unsqueeze", {Numbers({0, -1})})});
  cases.push_back({"Shape", {{{-1, 3}}}, TimesSize});
  cases.push_back({"Range", {{{-1, 4}}}, PlusRange});
}

void AddIndexed(std::vector<GradientCase>& cases) {
  const auto index = [](std::vector<int64_t> dims, int64_t bound) {
    return GradientInput{std::move(dims), Fill::kIndex, bound};
  };
  const auto axis = [](int64_t value) { return IntAttribute("axis", value); };
  cases.push_back({"GatherElements", {{{4, 3}}, index({2, 3}, 4)}, OneNode("GatherElements")});
  cases.push_back({"GatherElements_axis",
                   {{{3, 4, 2}}, index({2, 6, 2}, 4)},
                   OneNode("GatherElements", {axis(1)})});
  cases.push_back(
      {"GatherElements_empty", {{{3, 4}}, index({0, 4}, 3)}, OneNode("GatherElements", {axis(0)})});
  cases.push_back({"GatherND", {{{3, 3, 2}}, index({-1, 2}, 3)}, OneNode("GatherND")});
  cases.push_back({"GatherND_elements", {{{3, 3}}, index({2, 2, 2}, 3)}, OneNode("GatherND")});
  cases.push_back({"GatherND_batch",
                   {{{2, 4, 3}}, index({2, 5, 1}, 4)},
                   OneNode("GatherND", {IntAttribute("batch_dims", 1)})});
  cases.push_back({"GatherND_empty", {{{3, 3}}, index({0, 1}, 3)}, OneNode("GatherND")});
  // Places that are written twice have no derivative, so the indices of replaced data differ.
  const auto indices = [](std::vector<int64_t> values, Shape shape) {
    return Tensor::FromVector(values, std::move(shape));
  };
  const auto between = [](const std::string& op, const Tensor& constant,
                          std::vector<onnx::AttributeProto> attributes) -> BuildCase {
    return [=](GraphBuilder& builder, const Inputs& x, DType) {
      return builder.Op(op, {x[0], builder.Constant("indices", constant), x[1]}, attributes);
    };
  };
  cases.push_back({"ScatterElements",
                   {{{3, 3}}, {{2, 2}}},
                   between("ScatterElements", indices({1, 0, -1, 2}, {2, 2}), {})});
  cases.push_back({"ScatterElements_axis",
                   {{{2, 5}}, {{2, 2}}},
                   between("ScatterElements", indices({4, 0, 1, 2}, {2, 2}), {axis(1)})});
  cases.push_back({"ScatterElements_add",
                   {{{3, 2}}, index({4, 2}, 3), {{4, 2}}},
                   OneNode("ScatterElements", Added())});
  cases.back().inputs[0].dims = {4, 2};
  cases.push_back(
      {"ScatterND", {{{4, 3}}, {{2, 3}}}, between("ScatterND", indices({3, -3}, {2, 1}), {})});
  cases.push_back({"ScatterND_elements",
                   {{{2, 3}}, {{3}}},
                   between("ScatterND", indices({0, 1, 1, 2, 1, 0}, {3, 2}), {})});
  cases.push_back(
      {"ScatterND_add", {{{3, 2}}, index({-1, 1}, 3), {{-1, 2}}}, OneNode("ScatterND", Added())});
  cases.push_back(
      {"ScatterND_empty", {{{3, 2}}, {{0, 2}}}, between("ScatterND", indices({}, {0, 1}), {})});
}

}  // namespace

std::vector<GradientCase> MovementGradientCases() {
  std::vector<GradientCase> cases;
  AddCuts(cases);
  AddGrowth(cases);
  AddIndexed(cases);
  return cases;
}

}  // namespace cohort
