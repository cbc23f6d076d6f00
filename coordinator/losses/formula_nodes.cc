#include "coordinator/losses/formula_nodes.h"

#include <utility>

#include "common/program/cohort_ops.h"

namespace cohort {

std::string FormulaNodes::Op(const std::string& op, absl::Span<const std::string> inputs,
                             std::vector<onnx::AttributeProto> attributes) {
  return graph_.Op(op, inputs, std::move(attributes));
}

std::string FormulaNodes::CohortOp(const std::string& op, absl::Span<const std::string> inputs,
                                   std::vector<onnx::AttributeProto> attributes) {
  return graph_.Op(op, inputs, std::move(attributes), kCohortDomain);
}

std::string FormulaNodes::Constant(const Tensor& value) { return graph_.Constant("number", value); }

std::string FormulaNodes::Number(double value) {
  std::string& name = numbers_[value];
  if (name.empty()) name = Constant(Tensor::Scalar(static_cast<float>(value)));
  return name;
}

std::string FormulaNodes::Double(double value) { return Constant(Tensor::Scalar(value)); }

std::string FormulaNodes::Int(int64_t value) { return Constant(Tensor::Scalar(value)); }

std::string FormulaNodes::Ints(absl::Span<const int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Constant(
      Tensor::FromVector(std::vector<int64_t>(values.begin(), values.end()), Shape({count})));
}

std::string FormulaNodes::Numbers(absl::Span<const double> values) {
  std::vector<float> floats;
  for (const double value : values) floats.push_back(static_cast<float>(value));
  const auto count = static_cast<int64_t>(floats.size());
  return Constant(Tensor::FromVector(floats, Shape({count})));
}

std::string FormulaNodes::Cast(const std::string& x, DType dtype) {
  return Op("Cast", {x}, {IntAttribute("to", static_cast<int64_t>(dtype))});
}

std::string FormulaNodes::Reduce(const std::string& op, const std::string& x,
                                 absl::Span<const int64_t> axes, int64_t keep) {
  // In opset 17 only ReduceSum has its axes as an input; the other operators have an attribute.
  if (op == "ReduceSum") {
    if (axes.empty()) return Op(op, {x}, {IntAttribute("keepdims", keep)});
    return Op(op, {x, Ints(axes)}, {IntAttribute("keepdims", keep)});
  }
  std::vector<onnx::AttributeProto> attributes = {IntAttribute("keepdims", keep)};
  if (!axes.empty()) attributes.push_back(IntsAttribute("axes", axes));
  return Op(op, {x}, std::move(attributes));
}

std::string FormulaNodes::SumKept(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceSum", x, axes, 1);
}

std::string FormulaNodes::Sum(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceSum", x, axes, 0);
}

std::string FormulaNodes::MeanKept(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceMean", x, axes, 1);
}

std::string FormulaNodes::Mean(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceMean", x, axes, 0);
}

std::string FormulaNodes::Largest(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceMax", x, axes, 0);
}

std::string FormulaNodes::LargestKept(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceMax", x, axes, 1);
}

std::string FormulaNodes::Smallest(const std::string& x, absl::Span<const int64_t> axes) {
  return Reduce("ReduceMin", x, axes, 0);
}

std::string FormulaNodes::SumAll(const std::string& x) { return Reduce("ReduceSum", x, {}, 0); }

std::string FormulaNodes::SmallestAll(const std::string& x) {
  return Reduce("ReduceMin", x, {}, 0);
}

std::string FormulaNodes::LargestIndex(const std::string& x, int64_t axis) {
  return Op("ArgMax", {x}, {IntAttribute("axis", axis), IntAttribute("keepdims", 0)});
}

std::string FormulaNodes::Unsqueeze(const std::string& x, int64_t axis) {
  return Op("Unsqueeze", {x, Ints({axis})});
}

std::string FormulaNodes::Squeeze(const std::string& x, int64_t axis) {
  return Op("Squeeze", {x, Ints({axis})});
}

std::string FormulaNodes::Reshape(const std::string& x, absl::Span<const int64_t> dims) {
  return Op("Reshape", {x, Ints(dims)});
}

std::string FormulaNodes::Transpose(const std::string& x, absl::Span<const int64_t> permutation) {
  return Op("Transpose", {x}, {IntsAttribute("perm", permutation)});
}

std::string FormulaNodes::Join(absl::Span<const std::string> parts, int64_t axis) {
  return Op("Concat", parts, {IntAttribute("axis", axis)});
}

std::string FormulaNodes::Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
  return Op("Slice", {x, Ints({begin}), Ints({end}), Ints({axis})});
}

std::string FormulaNodes::RowsOf(const std::string& x) {
  return Squeeze(Op("Shape", {x}, {IntAttribute("start", 0), IntAttribute("end", 1)}), 0);
}

}  // namespace cohort
