// Layers that normalize each example by its own numbers: LayerNormalization, GroupNormalization,
// UnitNormalization and RMSNormalization.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

constexpr IntRange kAxisRange = {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax};

// Returns the axes in ascending order, where axis 0 is the batch. Errors: INVALID_ARGUMENT naming
// the layer and an axis that its input does not have.
absl::StatusOr<std::vector<int64_t>> AxesOf(const std::vector<int64_t>& axes,
                                            const std::string& layer, const Shape& shape) {
  std::vector<int64_t> found;
  for (const int64_t axis : axes) {
    const int64_t number = axis < 0 ? axis + shape.rank() + 1 : axis;
    if (number < 1 || number > shape.rank() || std::count(found.begin(), found.end(), number) > 0) {
      return WrongInput(layer, shape,
                        absl::StrCat("its axis ", axis, " is not one of theirs, or named twice"));
    }
    found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Returns the shape of a weight that has one number for each combination of positions along these
// axes.
Shape WeightShape(const std::vector<int64_t>& axes, const Shape& shape) {
  std::vector<int64_t> dims;
  dims.reserve(axes.size());
  for (const int64_t axis : axes) dims.push_back(shape.dim(static_cast<int>(axis) - 1));
  return Shape(dims);
}

// Returns the weight with a dimension of 1 for each other axis, so that it broadcasts to examples.
std::string Spread(const std::string& weight, const std::vector<int64_t>& axes, const Shape& shape,
                   const Nodes& nodes) {
  std::vector<int64_t> dims(static_cast<size_t>(shape.rank()), 1);
  for (const int64_t axis : axes) {
    dims[static_cast<size_t>(axis) - 1] = shape.dim(static_cast<int>(axis) - 1);
  }
  return nodes.Reshape(weight, dims);
}

// Computes 1 / sqrt(x + epsilon).
std::string InverseRoot(const std::string& x, double epsilon, const Nodes& nodes) {
  return nodes.Op("Reciprocal", {nodes.Op("Sqrt", {nodes.Add(x, nodes.Number(epsilon))})});
}

class LayerNormalization : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    config.Ints("axis", kAxisRange, 1, &axes_);
    config.Number("epsilon", {.min = 0}, &epsilon_);
    config.Bool("center", &center_);
    config.Bool("scale", &scale_);
    config.Bool("rms_scaling", &rms_scaling_);
    reader.Weight("beta", &beta_);
    reader.Weight("gamma", &gamma_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                     AxesOf(axes_, call.settings.layer, call.shape()));
    const Shape weight = WeightShape(axes, call.shape());
    if (has_gamma()) RETURN_IF_ERROR(plan.Add(call, "gamma", weight, gamma_).status());
    if (has_beta()) RETURN_IF_ERROR(plan.Add(call, "beta", weight, beta_).status());
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> axes = *AxesOf(axes_, call.layer(), call.shape());
    const std::string x = ChannelsLast(call.input(), nodes);
    const std::string distance = nodes.Sub(x, nodes.Reduce("ReduceMean", x, axes));
    const std::string variance = nodes.Reduce("ReduceMean", nodes.Mul(distance, distance), axes);
    // With rms_scaling, Keras divides by the deviation without subtracting the mean.
    std::string y = nodes.Mul(rms_scaling_ ? x : distance, InverseRoot(variance, epsilon_, nodes));
    const auto weight = [&](const char* name) {
      return Spread(call.Variable(name), axes, call.shape(), nodes);
    };
    if (has_gamma()) y = nodes.Mul(y, weight("gamma"));
    if (has_beta()) y = nodes.Add(y, weight("beta"));
    return {{y}};
  }

 private:
  bool has_gamma() const { return scale_ || rms_scaling_; }
  bool has_beta() const { return center_ && !rms_scaling_; }

  std::vector<int64_t> axes_ = {-1};
  double epsilon_ = 1e-3;
  bool center_ = true;
  bool scale_ = true;
  bool rms_scaling_ = false;
  WeightRules beta_{{.class_name = "Zeros"}};
  WeightRules gamma_{{.class_name = "Ones"}};
};

// Normalizes groups of channels, each over all other axes of the example.
class GroupNormalization : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    config.Int("groups", {.min = -1, .max = kDimMax}, &groups_);
    if (groups_ == 0) config.AddError("groups", "is 0; it must be -1, or a number from 1 on");
    reader.Axis(&axis_);
    config.Number("epsilon", {.min = 0}, &epsilon_);
    config.Bool("center", &center_);
    config.Bool("scale", &scale_);
    reader.Weight("beta", &beta_);
    reader.Weight("gamma", &gamma_);
    passes_mask_ = !reader.Keras().IsKeras2();
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                     AxesOf({axis_}, call.settings.layer, call.shape()));
    const Shape channels = WeightShape(axes, call.shape());
    if (groups_ > 0 && channels.dim(0) % groups_ != 0) {
      return WrongInput(call.settings.layer, call.shape(),
                        absl::StrCat("its ", groups_, " groups do not divide their channels"));
    }
    if (scale_) RETURN_IF_ERROR(plan.Add(call, "gamma", channels, gamma_).status());
    if (center_) RETURN_IF_ERROR(plan.Add(call, "beta", channels, beta_).status());
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const Shape& shape = call.shape();
    const std::vector<int64_t> axes = *AxesOf({axis_}, call.layer(), shape);
    const int64_t channels = WeightShape(axes, shape).dim(0);
    const int64_t groups = groups_ < 0 ? channels : groups_;
    // The channels come first, so that a group's elements lie together.
    const int rank = shape.rank() + 1;
    const int axis = static_cast<int>(axes[0]);
    const std::string x = nodes.Move(ChannelsLast(call.input(), nodes), {rank, axis, 1});
    std::vector<int64_t> turned(shape.dims().begin(), shape.dims().end());
    turned.erase(turned.begin() + axis - 1);
    turned.insert(turned.begin(), channels);
    const std::string grouped = nodes.Reshape(x, {-1, groups, shape.num_elements() / groups});
    const std::string distance = nodes.Sub(grouped, nodes.Reduce("ReduceMean", grouped, {2}));
    const std::string variance = nodes.Reduce("ReduceMean", nodes.Mul(distance, distance), {2});
    const std::string normal = nodes.Mul(distance, InverseRoot(variance, epsilon_, nodes));
    std::string y = nodes.Move(nodes.ReshapeExamples(normal, Shape(turned)), {rank, 1, axis});
    if (scale_) y = nodes.Mul(y, Spread(call.Variable("gamma"), axes, shape, nodes));
    if (center_) y = nodes.Add(y, Spread(call.Variable("beta"), axes, shape, nodes));
    LayerValue value{y};
    if (passes_mask_) value.mask = call.input().mask;
    return {std::move(value)};
  }

 private:
  int64_t groups_ = 32;  // -1: one for each channel
  int64_t axis_ = -1;
  double epsilon_ = 1e-3;
  bool center_ = true;
  bool scale_ = true;
  bool passes_mask_ = true;
  WeightRules beta_{{.class_name = "Zeros"}};
  WeightRules gamma_{{.class_name = "Ones"}};
};

// Divides by the length of the vector along the axes.
class UnitNormalization : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Ints("axis", kAxisRange, 1, &axes_);
    // Keras 2 bounds the square of the length, and Keras 3 the length.
    if (!reader.Keras().IsKeras2()) smallest_square_ = 1e-24;
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    RETURN_IF_ERROR(AxesOf(axes_, call.settings.layer, call.shape()).status());
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> axes = *AxesOf(axes_, call.layer(), call.shape());
    const std::string x = ChannelsLast(call.input(), nodes);
    const std::string squares = nodes.Reduce("ReduceSum", nodes.Mul(x, x), axes);
    const std::string length = nodes.Op("Max", {squares, nodes.Number(smallest_square_)});
    return {{nodes.Mul(x, InverseRoot(length, 0, nodes))}};
  }

 private:
  std::vector<int64_t> axes_ = {-1};
  double smallest_square_ = 1e-12;
};

// Divides by the root of the mean of squares.
class RMSNormalization : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Ints("axis", kAxisRange, 1, &axes_);
    reader.config.Number("epsilon", {.min = 0}, &epsilon_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                     AxesOf(axes_, call.settings.layer, call.shape()));
    RETURN_IF_ERROR(
        plan.Add(call, "scale", WeightShape(axes, call.shape()), {{.class_name = "Ones"}})
            .status());
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> axes = *AxesOf(axes_, call.layer(), call.shape());
    const std::string x = ChannelsLast(call.input(), nodes);
    const std::string mean = nodes.Reduce("ReduceMean", nodes.Mul(x, x), axes);
    const std::string y = nodes.Mul(x, InverseRoot(mean, epsilon_, nodes));
    return {{nodes.Mul(y, Spread(call.Variable("scale"), axes, call.shape(), nodes))}};
  }

 private:
  std::vector<int64_t> axes_ = {-1};
  double epsilon_ = 1e-6;
};

}  // namespace

void AddExampleNormalizationLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"LayerNormalization", MakeLayer<LayerNormalization>, MaskRule::kPass});
  classes.push_back({"GroupNormalization", MakeLayer<GroupNormalization>, MaskRule::kOwn});
  classes.push_back({"UnitNormalization", MakeLayer<UnitNormalization>, MaskRule::kPass});
  classes.push_back({"RMSNormalization", MakeLayer<RMSNormalization>, MaskRule::kPass});
}

}  // namespace cohort
