// Layers that make one tensor of several.

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

// Returns the inputs' masks as bool values, without those that are missing.
std::vector<std::string> MasksOf(const BuiltCall& call) {
  std::vector<std::string> masks;
  for (const LayerValue& input : call.inputs) {
    if (!input.mask.empty()) masks.push_back(input.mask);
  }
  return masks;
}

// Returns the mask of merged inputs. In Keras 2 a step counts if it does in all inputs, and in
// Keras 3 if it does in one of them.
std::string Joined(const std::vector<std::string>& masks, bool is_keras2, const Nodes& nodes) {
  std::string joined = masks[0];
  for (size_t i = 1; i < masks.size(); ++i) {
    joined = nodes.Op(is_keras2 ? "And" : "Or", {joined, masks[i]});
  }
  return joined;
}

// Returns whether the inputs are merged in ONNX's order: one of them is in this order, and all have
// as many dimensions. The others are then turned, which costs no more than to turn that one.
bool MergesChannelsFirst(absl::Span<const LayerValue> inputs) {
  const int rank = inputs[0].type.shape.rank();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const LayerValue& input) { return input.channels_first; }) &&
         std::all_of(inputs.begin(), inputs.end(),
                     [rank](const LayerValue& input) { return input.type.shape.rank() == rank; });
}

// Inserts dimensions of 1 behind the batch, until the shape has this rank.
Shape Widened(const Shape& shape, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank - shape.rank()), 1);
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

enum class MergeKind { kAdd, kSubtract, kMultiply, kAverage, kMaximum, kMinimum };

// Merges inputs element by element. Shapes broadcast; a shape with fewer dimensions gets dimensions
// of 1 behind the batch.
template <MergeKind kKind>
class Merge : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    is_keras2_ = reader.Keras().IsKeras2();
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    if (kKind == MergeKind::kSubtract && call.inputs.size() != 2) {
      return WrongInput(
          call.settings.layer, call.shape(),
          absl::StrCat("it subtracts one tensor from another, and is given ", call.inputs.size()));
    }
    const int rank = RankOf(call.inputs);
    std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
    for (const TensorType& input : call.inputs) {
      const Shape shape = Widened(input.shape, rank);
      for (int i = 0; i < rank; ++i) {
        int64_t& dim = dims[static_cast<size_t>(i)];
        const bool fits = dim == 1 || shape.dim(i) == 1 || dim == shape.dim(i);
        if (!fits) {
          return WrongInput(call.settings.layer, input.shape,
                            absl::StrCat("the inputs before have ", Shape(dims).ToString()));
        }
        dim = std::max(dim, shape.dim(i));
      }
    }
    const Shape merged(dims);
    if (merged.num_elements() > kElementsMax) {
      return WrongInput(call.settings.layer, call.shape(), "that is more than 2^31 elements");
    }
    return std::vector<TensorType>{{.shape = merged}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const int rank = call.outputs[0].shape.rank();
    const bool channels_first = MergesChannelsFirst(call.inputs);
    std::vector<std::string> values;
    for (const LayerValue& input : call.inputs) {
      const Shape& shape = input.type.shape;
      const std::string value =
          channels_first ? ChannelsFirst(input, nodes) : ChannelsLast(input, nodes);
      const bool is_whole = shape.rank() == rank;
      values.push_back(is_whole ? value : nodes.ReshapeExamples(value, Widened(shape, rank)));
    }
    LayerValue merged{Merged(values, nodes), "", channels_first};
    const std::vector<std::string> masks = MasksOf(call);
    // Keras 3 passes a mask on only if every input has one.
    const bool passes = !masks.empty() && (is_keras2_ || masks.size() == call.inputs.size());
    if (passes) merged.mask = Joined(masks, is_keras2_, nodes);
    return {std::move(merged)};
  }

 private:
  static int RankOf(absl::Span<const TensorType> inputs) {
    int rank = 0;
    for (const TensorType& input : inputs) rank = std::max(rank, input.shape.rank());
    return rank;
  }

  static const char* Operator() {
    switch (kKind) {
      case MergeKind::kSubtract:
        return "Sub";
      case MergeKind::kMultiply:
        return "Mul";
      case MergeKind::kMaximum:
        return "Max";
      case MergeKind::kMinimum:
        return "Min";
      default:
        return "Add";
    }
  }

  static std::string Merged(const std::vector<std::string>& values, const Nodes& nodes) {
    std::string merged = values[0];
    for (size_t i = 1; i < values.size(); ++i) merged = nodes.Op(Operator(), {merged, values[i]});
    if (kKind != MergeKind::kAverage || values.size() == 1) return merged;
    return nodes.Div(merged, nodes.Number(static_cast<double>(values.size())));
  }

  bool is_keras2_ = false;
};

// Concatenates the inputs of the layer along `axis`, where axis 0 is the batch.
class Concatenate : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Int("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, &axis_);
    is_keras2_ = reader.Keras().IsKeras2();
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    const std::string& layer = call.settings.layer;
    const Shape& first = call.shape();
    const int rank = first.rank();
    const int64_t axis = AxisOf(rank);
    if (axis < 0 || axis >= rank) {
      return WrongInput(layer, first,
                        absl::StrCat("its axis ", axis_, " is not one of their dimensions"));
    }
    std::vector<int64_t> joined(first.dims().begin(), first.dims().end());
    for (const TensorType& input : call.inputs.subspan(1)) {
      // The inputs of Concatenate must be equal in all dimensions but the joined one.
      bool fits = input.shape.rank() == rank;
      for (int i = 0; fits && i < rank; ++i) {
        fits = i == axis || input.shape.dim(i) == first.dim(i);
      }
      if (!fits) {
        return WrongInput(
            layer, input.shape,
            absl::StrCat("it joins dimension ", axis + 1, " and the first is ", first.ToString()));
      }
      joined[static_cast<size_t>(axis)] += input.shape.dim(static_cast<int>(axis));
    }
    const Shape shape(joined);
    if (shape.num_elements() > kElementsMax) {
      return WrongInput(layer, call.inputs.back().shape, "that is more than 2^31 elements");
    }
    return std::vector<TensorType>{{.shape = shape}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const bool channels_first = MergesChannelsFirst(call.inputs);
    std::vector<std::string> values;
    for (const LayerValue& input : call.inputs) {
      values.push_back(channels_first ? ChannelsFirst(input, nodes) : ChannelsLast(input, nodes));
    }
    const int64_t axis = channels_first ? AxisChannelsFirst(call.shape().rank()) : axis_;
    return {{.value = nodes.Concat(values, axis),
             .channels_first = channels_first,
             .mask = MaskOf(call, nodes)}};
  }

 private:
  // Keras's axis numbers count the batch as axis 0, but shapes have no batch.
  int64_t AxisOf(int rank) const { return axis_ < 0 ? axis_ + rank : axis_ - 1; }
  // Returns the axis of a value in ONNX's order, where axis 0 is the batch and axis 1 the channels.
  int64_t AxisChannelsFirst(int rank) const {
    const int64_t axis = AxisOf(rank);
    return axis == rank - 1 ? 1 : axis + 2;
  }

  // Returns the mask of the joined inputs. An input without a mask counts as not masked. If steps
  // are joined, so are their masks.
  std::string MaskOf(const BuiltCall& call, const Nodes& nodes) const {
    const std::vector<std::string> given = MasksOf(call);
    if (given.empty()) return "";
    std::vector<std::string> masks;
    for (const LayerValue& input : call.inputs) {
      if (!input.mask.empty()) {
        masks.push_back(input.mask);
        continue;
      }
      const std::string x = ChannelsLast(input, nodes);
      const int rank = input.type.shape.rank();
      const std::string row = rank < 2 ? x : nodes.ReduceAway("ReduceMax", x, Behind(rank));
      masks.push_back(nodes.Op("Equal", {row, row}));
    }
    const bool joins_steps = AxisOf(call.shape().rank()) == 0 && call.shape().rank() > 1;
    return joins_steps ? nodes.Concat(masks, 1) : Joined(masks, is_keras2_, nodes);
  }

  // Returns the numbers of the axes behind the steps.
  static std::vector<int64_t> Behind(int rank) {
    std::vector<int64_t> axes(static_cast<size_t>(rank) - 1);
    std::iota(axes.begin(), axes.end(), 2);
    return axes;
  }

  int64_t axis_ = -1;
  bool is_keras2_ = false;
};

// The scalar products along one axis of each of two inputs.
class Dot : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("axes");
    reader.config.Ints("axes", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, 2,
                       &axes_);
    if (axes_.size() != 2) {
      reader.config.AddError("axes", "must be a number, or one for each of the two inputs");
      axes_ = {1, 1};
    }
    reader.config.Bool("normalize", &normalize_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    if (call.inputs.size() != 2) {
      return WrongInput(
          call.settings.layer, call.shape(),
          absl::StrCat("it multiplies two tensors, and is given ", call.inputs.size()));
    }
    const Shape& a = call.inputs[0].shape;
    const Shape& b = call.inputs[1].shape;
    const int axis_a = AxisOf(0, a);
    const int axis_b = AxisOf(1, b);
    const bool fits = axis_a >= 1 && axis_a <= a.rank() && axis_b >= 1 && axis_b <= b.rank() &&
                      a.dim(axis_a - 1) == b.dim(axis_b - 1);
    if (!fits) {
      return WrongInput(call.settings.layer, a,
                        absl::StrCat("its axes do not fit to them and to ", b.ToString()));
    }
    std::vector<int64_t> dims = Without(a, axis_a);
    const std::vector<int64_t> others = Without(b, axis_b);
    dims.insert(dims.end(), others.begin(), others.end());
    if (dims.empty()) dims = {1};
    const Shape shape(dims);
    if (shape.num_elements() > kElementsMax) {
      return WrongInput(call.settings.layer, a, "that is more than 2^31 elements");
    }
    return std::vector<TensorType>{{.shape = shape}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    // The product is one of matrices [others, axis] and [axis, others].
    const auto matrix = [&](size_t input) {
      const Shape& shape = call.inputs[input].type.shape;
      const int axis = AxisOf(input, shape);
      std::string x = ChannelsLast(call.inputs[input], nodes);
      if (normalize_) {
        const std::string squares = nodes.Reduce("ReduceSum", nodes.Mul(x, x), {axis});
        x = nodes.Div(x, nodes.Op("Sqrt", {nodes.Op("Max", {squares, nodes.Number(1e-12)})}));
      }
      const int rank = shape.rank() + 1;
      const int64_t size = shape.dim(axis - 1);
      const int64_t others = shape.num_elements() / size;
      if (input == 0) {
        return nodes.Reshape(nodes.Move(x, {rank, axis, rank - 1}), {-1, others, size});
      }
      return nodes.Reshape(nodes.Move(x, {rank, axis, 1}), {-1, size, others});
    };
    const std::string product = nodes.Op("MatMul", {matrix(0), matrix(1)});
    return {{nodes.ReshapeExamples(product, call.outputs[0].shape)}};
  }

 private:
  int AxisOf(size_t input, const Shape& shape) const {
    return static_cast<int>(axes_[input] < 0 ? axes_[input] + shape.rank() + 1 : axes_[input]);
  }

  static std::vector<int64_t> Without(const Shape& shape, int axis) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.erase(dims.begin() + axis - 1);
    return dims;
  }

  std::vector<int64_t> axes_ = {1, 1};
  bool normalize_ = false;
};

}  // namespace

void AddMergingLayers(std::vector<LayerClass>& classes) {
  const auto add = [&](const char* name, std::unique_ptr<Layer> (*make)(const char*)) {
    classes.push_back({name, make, MaskRule::kOwn, LayerKind::kList});
  };
  add("Concatenate", MakeLayer<Concatenate>);
  add("Add", MakeLayer<Merge<MergeKind::kAdd>>);
  add("Subtract", MakeLayer<Merge<MergeKind::kSubtract>>);
  add("Multiply", MakeLayer<Merge<MergeKind::kMultiply>>);
  add("Average", MakeLayer<Merge<MergeKind::kAverage>>);
  add("Maximum", MakeLayer<Merge<MergeKind::kMaximum>>);
  add("Minimum", MakeLayer<Merge<MergeKind::kMinimum>>);
  add("Dot", MakeLayer<Dot>);
}

}  // namespace cohort
