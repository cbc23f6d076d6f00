#pragma once

// Adds operators to a graph by short names, so that a formula reads as one. Values are names in the
// graph; numbers become float32 constants. Axes may be negative and then count from the end.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"

namespace cohort {

// Writes formulas into one graph. Thread-compatible.
class FormulaNodes {
 public:
  // Adds nodes to `graph`, which must outlive this object.
  explicit FormulaNodes(GraphBuilder& graph) : graph_(graph) {}

  GraphBuilder& graph() { return graph_; }

  std::string Op(const std::string& op, absl::Span<const std::string> inputs,
                 std::vector<onnx::AttributeProto> attributes = {});
  std::string CohortOp(const std::string& op, absl::Span<const std::string> inputs,
                       std::vector<onnx::AttributeProto> attributes = {});
  // Returns a constant: a scalar or a list. Equal scalars are one constant.
  std::string Number(double value);
  std::string Double(double value);
  std::string Int(int64_t value);
  std::string Ints(absl::Span<const int64_t> values);
  std::string Numbers(absl::Span<const double> values);
  std::string Constant(const Tensor& value);

  std::string Add(const std::string& a, const std::string& b) { return Op("Add", {a, b}); }
  std::string Sub(const std::string& a, const std::string& b) { return Op("Sub", {a, b}); }
  std::string Mul(const std::string& a, const std::string& b) { return Op("Mul", {a, b}); }
  std::string Div(const std::string& a, const std::string& b) { return Op("Div", {a, b}); }
  std::string Add(const std::string& a, double b) { return Add(a, Number(b)); }
  std::string Sub(const std::string& a, double b) { return Sub(a, Number(b)); }
  std::string Mul(const std::string& a, double b) { return Mul(a, Number(b)); }
  std::string Div(const std::string& a, double b) { return Div(a, Number(b)); }
  // Returns number - value.
  std::string From(double number, const std::string& value) { return Sub(Number(number), value); }
  std::string Neg(const std::string& x) { return Op("Neg", {x}); }
  std::string Abs(const std::string& x) { return Op("Abs", {x}); }
  std::string Log(const std::string& x) { return Op("Log", {x}); }
  std::string Exp(const std::string& x) { return Op("Exp", {x}); }
  std::string Sqrt(const std::string& x) { return Op("Sqrt", {x}); }
  std::string Softplus(const std::string& x) { return Op("Softplus", {x}); }
  std::string Sigmoid(const std::string& x) { return Op("Sigmoid", {x}); }
  std::string Square(const std::string& x) { return Mul(x, x); }
  std::string Power(const std::string& x, double exponent) {
    return Op("Pow", {x, Number(exponent)});
  }
  // Returns max(x, bound). Where both are equal, x gets the gradient.
  std::string AtLeast(const std::string& x, double bound) { return Op("Max", {x, Number(bound)}); }
  std::string Clip(const std::string& x, double min, double max) {
    return Op("Clip", {x, Number(min), Number(max)});
  }
  std::string Where(const std::string& condition, const std::string& x, const std::string& y) {
    return Op("Where", {condition, x, y});
  }
  std::string Equal(const std::string& a, const std::string& b) { return Op("Equal", {a, b}); }
  std::string Greater(const std::string& a, const std::string& b) { return Op("Greater", {a, b}); }
  std::string Not(const std::string& x) { return Op("Not", {x}); }
  std::string And(const std::string& a, const std::string& b) { return Op("And", {a, b}); }
  std::string Or(const std::string& a, const std::string& b) { return Op("Or", {a, b}); }
  std::string Cast(const std::string& x, DType dtype);
  std::string ToFloat(const std::string& x) { return Cast(x, DType::kFloat32); }
  std::string ToDouble(const std::string& x) { return Cast(x, DType::kFloat64); }

  // Reduce along the axes. Reduced axes keep the size 1 (Kept) or are removed.
  std::string SumKept(const std::string& x, absl::Span<const int64_t> axes);
  std::string Sum(const std::string& x, absl::Span<const int64_t> axes);
  std::string MeanKept(const std::string& x, absl::Span<const int64_t> axes);
  std::string Mean(const std::string& x, absl::Span<const int64_t> axes);
  std::string Largest(const std::string& x, absl::Span<const int64_t> axes);
  std::string LargestKept(const std::string& x, absl::Span<const int64_t> axes);
  std::string Smallest(const std::string& x, absl::Span<const int64_t> axes);
  // Reduce all elements to a scalar.
  std::string SumAll(const std::string& x);
  std::string SmallestAll(const std::string& x);
  std::string LargestIndex(const std::string& x, int64_t axis);

  std::string Unsqueeze(const std::string& x, int64_t axis);
  std::string Squeeze(const std::string& x, int64_t axis);
  std::string Reshape(const std::string& x, absl::Span<const int64_t> dims);
  std::string Flat(const std::string& x) { return Reshape(x, {-1}); }
  std::string Transpose(const std::string& x, absl::Span<const int64_t> permutation);
  std::string Join(absl::Span<const std::string> parts, int64_t axis);
  // Returns the elements [begin, end) along an axis.
  std::string Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end);
  std::string ShapeOf(const std::string& x) { return Op("Shape", {x}); }
  // Returns the number of elements as an int64 scalar.
  std::string SizeOf(const std::string& x) { return Op("Size", {x}); }
  // Returns the extent of axis 0 as an int64 scalar.
  std::string RowsOf(const std::string& x);

 private:
  std::string Reduce(const std::string& op, const std::string& x, absl::Span<const int64_t> axes,
                     int64_t keep);

  GraphBuilder& graph_;
  std::map<double, std::string> numbers_;
};

}  // namespace cohort
