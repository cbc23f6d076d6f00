#pragma once

// A writer of nodes with short names for the operators that layers use most. Each method adds a
// node or a constant, and returns the name of its value.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/layer_target.h"

namespace cohort {

// Adds nodes to one graph, which must outlive this object. Thread-compatible.
class Nodes {
 public:
  explicit Nodes(GraphBuilder& graph) : graph_(graph) {}

  GraphBuilder& graph() const { return graph_; }

  std::string Number(double value) const;  // a float32 scalar as a constant
  std::string Ints(absl::Span<const int64_t> values) const;
  std::string Floats(const std::vector<float>& values, const Shape& shape) const;

  // Adds a node of an operator without attributes.
  std::string Op(const char* op, absl::Span<const std::string> inputs) const;
  std::string Add(const std::string& a, const std::string& b) const { return Op("Add", {a, b}); }
  std::string Sub(const std::string& a, const std::string& b) const { return Op("Sub", {a, b}); }
  std::string Mul(const std::string& a, const std::string& b) const { return Op("Mul", {a, b}); }
  std::string Div(const std::string& a, const std::string& b) const { return Op("Div", {a, b}); }

  std::string Cast(const std::string& x, DType dtype) const;
  std::string Transpose(const std::string& x, absl::Span<const int64_t> perm) const;
  // Moves the axis `from` of a value of rank `rank` to the place `to`. The other axes keep their
  // order.
  struct AxisMove {
    int rank, from, to;
  };
  std::string Move(const std::string& x, AxisMove move) const;
  // Reshapes x. One of the dimensions may be -1, which follows from the others; 0 keeps the
  // dimension of x.
  std::string Reshape(const std::string& x, absl::Span<const int64_t> dims) const;
  // Reshapes each example to this shape, and keeps the batch.
  std::string ReshapeExamples(const std::string& x, const Shape& shape) const;
  std::string Unsqueeze(const std::string& x, int64_t axis) const;
  std::string Concat(absl::Span<const std::string> values, int64_t axis) const;
  // Takes positions `begin` to `end` (excluded) of an axis.
  std::string Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) const;
  // Cuts an axis into pieces of these sizes.
  std::vector<std::string> Split(const std::string& x, int64_t axis,
                                 const std::vector<int64_t>& sizes) const;
  // Returns a factor of the shape of `like`, for training: 0 for a share `rate` of the elements,
  // chosen at random, and 1 / (1 - rate) for the others.
  std::string DropoutFactor(const std::string& like, double rate) const;
  // Reduces by ONNX's operator `op`, such as "ReduceMean". Reduced axes stay, with size 1.
  std::string Reduce(const char* op, const std::string& x, absl::Span<const int64_t> axes) const;
  // Reduces like Reduce(), and removes the reduced axes.
  std::string ReduceAway(const char* op, const std::string& x,
                         absl::Span<const int64_t> axes) const;

 private:
  GraphBuilder& graph_;
};

// Return the value in Keras's order of dimensions, [N,...,channels], or in ONNX's,
// [N,channels,...].
std::string ChannelsLast(const LayerValue& value, const Nodes& nodes);
std::string ChannelsFirst(const LayerValue& value, const Nodes& nodes);

}  // namespace cohort
