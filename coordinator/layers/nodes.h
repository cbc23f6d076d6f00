#pragma once

// Short names for the nodes that layers add most. Each method adds a node, or a constant, and
// returns the name of its value.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/layer_target.h"

namespace cohort {

// Adds nodes to one graph. Cheap to make; lives shorter than the graph. Thread-compatible.
class Nodes {
 public:
  explicit Nodes(GraphBuilder& graph) : graph_(graph) {}

  GraphBuilder& graph() const { return graph_; }

  std::string Number(double value) const;  // a float32 scalar
  std::string Ints(absl::Span<const int64_t> values) const;
  std::string Floats(const std::vector<float>& values, const Shape& shape) const;

  // A node of one operator without attributes.
  std::string Op(const char* op, absl::Span<const std::string> inputs) const;
  std::string Add(const std::string& a, const std::string& b) const { return Op("Add", {a, b}); }
  std::string Sub(const std::string& a, const std::string& b) const { return Op("Sub", {a, b}); }
  std::string Mul(const std::string& a, const std::string& b) const { return Op("Mul", {a, b}); }
  std::string Div(const std::string& a, const std::string& b) const { return Op("Div", {a, b}); }

  std::string Cast(const std::string& x, DType dtype) const;
  std::string Transpose(const std::string& x, absl::Span<const int64_t> perm) const;
  // Moves the axis `from` of a value of this rank to the place `to`; the others keep their order.
  struct AxisMove {
    int rank, from, to;
  };
  std::string Move(const std::string& x, AxisMove move) const;
  // Reshapes to these dimensions, of which one may be -1; 0 keeps a dimension of x.
  std::string Reshape(const std::string& x, absl::Span<const int64_t> dims) const;
  // Reshapes to examples of this shape; the batch stays.
  std::string ReshapeExamples(const std::string& x, const Shape& shape) const;
  std::string Unsqueeze(const std::string& x, int64_t axis) const;
  std::string Concat(absl::Span<const std::string> values, int64_t axis) const;
  // Takes positions `begin` to `end` (excluded) of an axis.
  std::string Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) const;
  // Cuts an axis into pieces of these sizes.
  std::vector<std::string> Split(const std::string& x, int64_t axis,
                                 const std::vector<int64_t>& sizes) const;
  // Returns a factor of the shape of `like` that is 0 for the share `rate` of its elements, and 1 /
  // (1 - rate) for the others. Only for training.
  std::string DropoutFactor(const std::string& like, double rate) const;
  // Reduces by ONNX's operator `op`, such as "ReduceMean", and keeps the reduced dimensions as 1.
  std::string Reduce(const char* op, const std::string& x, absl::Span<const int64_t> axes) const;
  // The same without the reduced dimensions.
  std::string ReduceAway(const char* op, const std::string& x,
                         absl::Span<const int64_t> axes) const;

 private:
  GraphBuilder& graph_;
};

// Returns the value in Keras's order of dimensions, or in ONNX's, [N,channels,...].
std::string ChannelsLast(const LayerValue& value, const Nodes& nodes);
std::string ChannelsFirst(const LayerValue& value, const Nodes& nodes);

}  // namespace cohort
