#include "coordinator/layers/nodes.h"

#include <numeric>

#include "common/tensor/tensor.h"

namespace cohort {
namespace {

// Returns the permutation that moves the dimension at `from` to `to`.
std::vector<int64_t> Moved(int rank, int from, int to) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  return perm;
}

}  // namespace

std::string Nodes::Number(double value) const {
  return graph_.Constant("number", Tensor::Scalar(static_cast<float>(value)));
}

std::string Nodes::Ints(absl::Span<const int64_t> values) const {
  const auto count = static_cast<int64_t>(values.size());
  return graph_.Constant(
      "ints", Tensor::FromVector(std::vector<int64_t>(values.begin(), values.end()), {count}));
}

std::string Nodes::Floats(const std::vector<float>& values, const Shape& shape) const {
  return graph_.Constant("floats", Tensor::FromVector(values, shape));
}

std::string Nodes::Op(const char* op, absl::Span<const std::string> inputs) const {
  return graph_.Op(op, inputs);
}

std::string Nodes::Cast(const std::string& x, DType dtype) const {
  return graph_.Op("Cast", {x}, {IntAttribute("to", static_cast<int64_t>(dtype))});
}

std::string Nodes::Transpose(const std::string& x, absl::Span<const int64_t> perm) const {
  return graph_.Op("Transpose", {x}, {IntsAttribute("perm", perm)});
}

std::string Nodes::Move(const std::string& x, AxisMove move) const {
  return move.from == move.to ? x : Transpose(x, Moved(move.rank, move.from, move.to));
}

std::string Nodes::Reshape(const std::string& x, absl::Span<const int64_t> dims) const {
  return graph_.Op("Reshape", {x, Ints(dims)});
}

std::string Nodes::ReshapeExamples(const std::string& x, const Shape& shape) const {
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Reshape(x, dims);
}

std::string Nodes::Unsqueeze(const std::string& x, int64_t axis) const {
  return graph_.Op("Unsqueeze", {x, Ints({axis})});
}

std::string Nodes::Concat(absl::Span<const std::string> values, int64_t axis) const {
  return graph_.Op("Concat", values, {IntAttribute("axis", axis)});
}

std::vector<std::string> Nodes::Split(const std::string& x, int64_t axis,
                                      const std::vector<int64_t>& sizes) const {
  if (sizes.size() == 1) return {x};
  return graph_.OpN("Split", {x, Ints(sizes)}, static_cast<int>(sizes.size()),
                    {IntAttribute("axis", axis)});
}

std::string Nodes::DropoutFactor(const std::string& like, double rate) const {
  const std::string ones = Add(Mul(like, Number(0)), Number(1));
  return Op("Dropout", {ones, Number(rate), graph_.Constant("training", Tensor::Scalar(true))});
}

std::string Nodes::Slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) const {
  return graph_.Op("Slice", {x, Ints({begin}), Ints({end}), Ints({axis})});
}

namespace {

std::string ReduceNode(const char* op, const std::string& x, absl::Span<const int64_t> axes,
                       int64_t keepdims, const Nodes& nodes) {
  const onnx::AttributeProto keep = IntAttribute("keepdims", keepdims);
  // ReduceSum has its axes as an input, the other operators as an attribute.
  if (absl::string_view(op) == "ReduceSum") {
    return nodes.graph().Op(op, {x, nodes.Ints(axes)}, {keep});
  }
  return nodes.graph().Op(op, {x}, {IntsAttribute("axes", axes), keep});
}

}  // namespace

std::string Nodes::Reduce(const char* op, const std::string& x,
                          absl::Span<const int64_t> axes) const {
  return ReduceNode(op, x, axes, 1, *this);
}

std::string Nodes::ReduceAway(const char* op, const std::string& x,
                              absl::Span<const int64_t> axes) const {
  return ReduceNode(op, x, axes, 0, *this);
}

std::string ChannelsLast(const LayerValue& value, const Nodes& nodes) {
  const int rank = value.type.shape.rank() + 1;
  return value.channels_first ? nodes.Transpose(value.value, Moved(rank, 1, rank - 1))
                              : value.value;
}

std::string ChannelsFirst(const LayerValue& value, const Nodes& nodes) {
  const int rank = value.type.shape.rank() + 1;
  return value.channels_first ? value.value
                              : nodes.Transpose(value.value, Moved(rank, rank - 1, 1));
}

}  // namespace cohort
