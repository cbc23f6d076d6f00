// Layers that reduce windows, or whole images, to their largest element or their mean.

#include "common/base/status.h"
#include "coordinator/layers/classes/image.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

enum class PoolKind { kMax, kAverage };

template <PoolKind kKind, size_t kAxes>
class Pooling : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.DataFormat(&layout_.channels_first);
    reader.Extents("pool_size", &window_.extents);
    // Without the key `strides`, the windows lie side by side.
    window_.strides = window_.extents;
    reader.Extents("strides", &window_.strides);
    reader.Padding(&window_.same_padding);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    const Shape& input = call.shape();
    RETURN_IF_ERROR(layout_.Check(call.settings.layer, input));
    ASSIGN_OR_RETURN(const std::vector<int64_t> positions,
                     window_.Positions(call.settings.layer, input, layout_.Sizes(input)));
    ASSIGN_OR_RETURN(const Shape output, layout_.Example(call.settings.layer, input, positions,
                                                         layout_.Channels(input)));
    return std::vector<TensorType>{{.shape = output}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const std::string x = layout_.ToOnnx(call.input(), Nodes(target.graph));
    return {layout_.FromOnnx(target.graph.Op(
        kKind == PoolKind::kMax ? "MaxPool" : "AveragePool", {x},
        {IntsAttribute("kernel_shape", window_.extents), IntsAttribute("strides", window_.strides),
         IntsAttribute("pads", window_.Pads(layout_.Sizes(call.shape())))}))};
  }

 private:
  ImageLayout layout_{kAxes};
  SlidingWindow window_{std::vector<int64_t>(kAxes, 2), std::vector<int64_t>(kAxes, 2)};
};

// The mean, or the largest element, over all axes but the channels.
template <PoolKind kKind, size_t kAxes>
class GlobalPooling : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.DataFormat(&layout_.channels_first);
    reader.config.Bool("keepdims", &keepdims_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    const Shape& input = call.shape();
    RETURN_IF_ERROR(layout_.Check(call.settings.layer, input));
    const int64_t channels = layout_.Channels(input);
    if (!keepdims_) return std::vector<TensorType>{{.shape = Shape({channels})}};
    ASSIGN_OR_RETURN(const Shape output, layout_.Example(call.settings.layer, input,
                                                         std::vector<int64_t>(kAxes, 1), channels));
    return std::vector<TensorType>{{.shape = output}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    if (kKind == PoolKind::kAverage && kAxes == 1 && !call.input().mask.empty()) {
      return {MeanOfSteps(call, nodes)};
    }
    const std::string x = layout_.ToOnnx(call.input(), nodes);
    if (kKind == PoolKind::kAverage && kAxes == 2) {
      const std::string y = nodes.Op("GlobalAveragePool", {x});
      if (keepdims_) return {layout_.FromOnnx(y)};
      // Global pooling leaves no rows and columns, so the elements have the same order in Keras and
      // ONNX.
      return {{target.graph.Op("Flatten", {y}, {IntAttribute("axis", 1)})}};
    }
    std::vector<int64_t> axes;
    for (size_t i = 0; i < kAxes; ++i) axes.push_back(static_cast<int64_t>(i) + 2);
    const char* const op = kKind == PoolKind::kAverage ? "ReduceMean" : "ReduceMax";
    if (keepdims_) return {layout_.FromOnnx(nodes.Reduce(op, x, axes))};
    return {{nodes.ReduceAway(op, x, axes)}};
  }

 private:
  // Adds the mean over the steps that the mask marks.
  LayerValue MeanOfSteps(const BuiltCall& call, const Nodes& nodes) const {
    const int64_t steps = layout_.channels_first ? 2 : 1;
    const std::string marks = nodes.Unsqueeze(nodes.Cast(call.input().mask, DType::kFloat32),
                                              layout_.channels_first ? 1 : 2);
    const std::string x = ChannelsLast(call.input(), nodes);
    const auto sum = [&](const std::string& value) {
      return keepdims_ ? nodes.Reduce("ReduceSum", value, {steps})
                       : nodes.ReduceAway("ReduceSum", value, {steps});
    };
    return {nodes.Div(sum(nodes.Mul(x, marks)), sum(marks))};
  }

  ImageLayout layout_{kAxes};
  bool keepdims_ = false;
};

template <size_t kAxes>
void AddPoolingOfAxes(const std::array<const char*, 4>& names, std::vector<LayerClass>& classes) {
  classes.push_back({names[0], MakeLayer<Pooling<PoolKind::kMax, kAxes>>});
  classes.push_back({names[1], MakeLayer<Pooling<PoolKind::kAverage, kAxes>>});
  classes.push_back({names[2], MakeLayer<GlobalPooling<PoolKind::kMax, kAxes>>});
  classes.push_back({names[3], MakeLayer<GlobalPooling<PoolKind::kAverage, kAxes>>});
}

}  // namespace

void AddPoolingLayers(std::vector<LayerClass>& classes) {
  AddPoolingOfAxes<1>(
      {"MaxPooling1D", "AveragePooling1D", "GlobalMaxPooling1D", "GlobalAveragePooling1D"},
      classes);
  AddPoolingOfAxes<2>(
      {"MaxPooling2D", "AveragePooling2D", "GlobalMaxPooling2D", "GlobalAveragePooling2D"},
      classes);
  AddPoolingOfAxes<3>(
      {"MaxPooling3D", "AveragePooling3D", "GlobalMaxPooling3D", "GlobalAveragePooling3D"},
      classes);
}

}  // namespace cohort
