// Convolutions. Kernels have Keras's order, [positions..., inputs, outputs], so that checkpoints
// can be exchanged with Keras.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/image.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

// The settings of a convolution's window: size, strides, dilation and padding.
struct ConvWindow {
  explicit ConvWindow(size_t axes)
      : layout{axes}, kernel_size(axes, 1), dilation(axes, 1), window{kernel_size, dilation} {}

  void Read(LayerReader& reader) {
    std::vector<std::string> paddings = {"valid", "same"};
    if (layout.axes == 1) paddings.push_back("causal");
    ReadWith(paddings, reader);
  }
  // Reads the window of a transposed convolution, which has no causal padding.
  void ReadTransposed(LayerReader& reader) { ReadWith({"valid", "same"}, reader); }

  void ReadWith(const std::vector<std::string>& paddings, LayerReader& reader) {
    ObjectReader& config = reader.config;
    // An absent key is an error here, although the readers below would take a default.
    config.Require("kernel_size");
    reader.Extents("kernel_size", &kernel_size);
    reader.Extents("strides", &window.strides);
    std::string padding = "valid";
    config.Choice("padding", paddings, &padding);
    window.same_padding = padding == "same";
    causal = padding == "causal";
    reader.Extents("dilation_rate", &dilation);
    const std::vector<int64_t> one(layout.axes, 1);
    if (window.strides != one && dilation != one) {  // Keras refuses this combination, too
      config.AddError("dilation_rate", "stands beside strides; one of the two must be 1");
    }
    // A dilated kernel covers (size - 1) * dilation + 1 positions.
    for (size_t i = 0; i < layout.axes; ++i) {
      window.extents[i] = (kernel_size[i] - 1) * dilation[i] + 1;
    }
  }

  // Returns the shape of the output. Errors: INVALID_ARGUMENT naming the layer.
  absl::StatusOr<Shape> Output(const std::string& layer, const Shape& input,
                               int64_t channels) const {
    std::vector<int64_t> sizes = layout.Sizes(input);
    if (causal) sizes[0] += window.extents[0] - 1;
    ASSIGN_OR_RETURN(const std::vector<int64_t> positions, window.Positions(layer, input, sizes));
    return layout.Example(layer, input, positions, channels);
  }

  // Returns the shape of a kernel with these two last dimensions. Errors: INVALID_ARGUMENT naming
  // the layer if it would have too many elements.
  absl::StatusOr<Shape> Kernel(const std::string& layer, const Shape& input, int64_t a,
                               int64_t b) const {
    int64_t weights = a > kElementsMax / b ? kElementsMax + 1 : a * b;
    for (const int64_t size : kernel_size) {
      if (weights > kElementsMax / size) {
        return WrongInput(layer, input, "its kernel would have more than 2^31 elements");
      }
      weights *= size;
    }
    std::vector<int64_t> dims = kernel_size;
    dims.push_back(a);
    dims.push_back(b);
    return Shape(dims);
  }

  // Adds the convolution of x, which is in ONNX's order. `operands` are the weights in ONNX's order
  // and, if there is one, the bias.
  std::string Add(const std::string& x, const Shape& input, int64_t groups,
                  std::vector<std::string> operands, const Nodes& nodes) const {
    std::vector<int64_t> pads = window.Pads(layout.Sizes(input));
    if (causal) pads = {window.extents[0] - 1, 0};
    operands.insert(operands.begin(), x);
    return nodes.graph().Op(
        "Conv", operands,
        {IntsAttribute("kernel_shape", kernel_size), IntsAttribute("strides", window.strides),
         IntsAttribute("dilations", dilation), IntsAttribute("pads", pads),
         IntAttribute("group", groups)});
  }

  // Returns the permutation that moves the positions of a kernel behind two of the other
  // dimensions. `first` and `second` are the numbers of these dimensions, counted from the end of
  // the positions.
  std::vector<int64_t> Behind(int64_t first, int64_t second) const {
    const auto axes_count = static_cast<int64_t>(layout.axes);
    std::vector<int64_t> perm = {axes_count + first, axes_count + second};
    for (int64_t i = 0; i < axes_count; ++i) perm.push_back(i);
    return perm;
  }

  ImageLayout layout;
  std::vector<int64_t> kernel_size;
  std::vector<int64_t> dilation;
  SlidingWindow window;
  bool causal = false;  // true: a step does not see later steps
};

// The bias and the activation, which all convolutions apply to their sums.
struct ConvEnd {
  // `kernels` names the weights with kernels, such as "kernel", in the order of `rules`.
  void Read(LayerReader& reader, std::vector<std::pair<const char*, WeightRules*>> kernels) {
    reader.ReadActivation(&activation);
    reader.config.Bool("use_bias", &use_bias);
    for (const auto& [name, rules] : kernels) reader.Weight(name, rules);
    reader.Weight("bias", &bias);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, int64_t channels,
                                               const Shape& output, LayerPlan& plan) const {
    if (use_bias) RETURN_IF_ERROR(plan.Add(call, "bias", Shape({channels}), bias).status());
    ASSIGN_OR_RETURN(TensorType type, ActivatedType(activation, call.settings.layer, output));
    return std::vector<TensorType>{std::move(type)};
  }

  std::vector<std::string> Operands(const std::string& weights, const BuiltCall& call) const {
    if (!use_bias) return {weights};
    return {weights, call.Variable("bias")};
  }

  Activation activation;
  bool use_bias = true;
  WeightRules bias{{.class_name = "Zeros"}};
};

template <size_t kAxes>
class Conv : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    reader.DataFormat(&conv_.layout.channels_first);
    config.Require("filters");
    config.Int("filters", {.min = 1, .max = kDimMax}, &filters_);
    conv_.Read(reader);
    config.Int("groups", {.min = 1, .max = kDimMax}, &groups_);
    if (filters_ % groups_ != 0) {
      config.AddError(
          "groups", absl::StrCat("is ", groups_, ", which does not divide ", filters_, " filters"));
    }
    end_.Read(reader, {{"kernel", &kernel_}});
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const std::string& layer = call.settings.layer;
    const Shape& input = call.shape();
    RETURN_IF_ERROR(conv_.layout.Check(layer, input));
    const int64_t channels = conv_.layout.Channels(input);
    if (channels % groups_ != 0) {
      return WrongInput(layer, input,
                        absl::StrCat(groups_, " groups do not divide their channels"));
    }
    ASSIGN_OR_RETURN(const Shape kernel, conv_.Kernel(layer, input, channels / groups_, filters_));
    ASSIGN_OR_RETURN(const Shape output, conv_.Output(layer, input, filters_));
    RETURN_IF_ERROR(plan.Add(call, "kernel", kernel, kernel_).status());
    return end_.Plan(call, filters_, output, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string weights = nodes.Transpose(call.Variable("kernel"), conv_.Behind(1, 0));
    LayerValue y =
        conv_.layout.FromOnnx(conv_.Add(conv_.layout.ToOnnx(call.input(), nodes), call.shape(),
                                        groups_, end_.Operands(weights, call), nodes));
    y.type.shape = *conv_.Output(call.layer(), call.shape(), filters_);
    return {Activate(end_.activation, y, target)};
  }

 private:
  ConvWindow conv_{kAxes};
  int64_t filters_ = 1;
  int64_t groups_ = 1;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  ConvEnd end_;
};

// Returns the weights [positions..., inputs, multiplier] in ONNX's order. Each input channel has
// kernels of its own.
std::string DepthwiseWeights(const std::string& kernel, const ConvWindow& conv, int64_t outputs,
                             const Nodes& nodes) {
  std::vector<int64_t> dims = {outputs, 1};
  dims.insert(dims.end(), conv.kernel_size.begin(), conv.kernel_size.end());
  return nodes.Reshape(nodes.Transpose(kernel, conv.Behind(0, 1)), dims);
}

// DepthwiseConv convolves each channel by itself. SeparableConv (kSeparable) then mixes the
// channels at each position.
template <size_t kAxes, bool kSeparable>
class DepthwiseConv : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    reader.DataFormat(&conv_.layout.channels_first);
    if (kSeparable) {
      config.Require("filters");
      config.Int("filters", {.min = 1, .max = kDimMax}, &filters_);
    }
    conv_.Read(reader);
    config.Int("depth_multiplier", {.min = 1, .max = kDimMax}, &multiplier_);
    config.OnlyNeutral("groups", int64_t{1});
    // Keras 2 writes these keys of its base class, and does not use them.
    for (const char* key : {"kernel_initializer", "kernel_regularizer", "kernel_constraint"}) {
      config.Ignore(key);
    }
    if (kSeparable) {
      end_.Read(reader, {{"depthwise", &depthwise_}, {"pointwise", &pointwise_}});
    } else {
      config.Ignore("filters");
      end_.Read(reader, {{"depthwise", &depthwise_}});
      // Keras 3 calls the kernel of a DepthwiseConv "kernel", as in other convolutions.
      if (!reader.Keras().IsKeras2()) kernel_name_ = "kernel";
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const std::string& layer = call.settings.layer;
    const Shape& input = call.shape();
    RETURN_IF_ERROR(conv_.layout.Check(layer, input));
    const int64_t channels = conv_.layout.Channels(input);
    if (multiplier_ > kDimMax / channels) {
      return WrongInput(layer, input, "its depth_multiplier makes too many channels");
    }
    const int64_t deep = channels * multiplier_;
    ASSIGN_OR_RETURN(const Shape kernel, conv_.Kernel(layer, input, channels, multiplier_));
    const int64_t outputs = kSeparable ? filters_ : deep;
    ASSIGN_OR_RETURN(const Shape output, conv_.Output(layer, input, outputs));
    RETURN_IF_ERROR(conv_.Output(layer, input, deep).status());
    RETURN_IF_ERROR(plan.Add(call, kernel_name_, kernel, depthwise_).status());
    if (kSeparable) {
      std::vector<int64_t> dims(kAxes, 1);
      dims.push_back(deep);
      dims.push_back(filters_);
      RETURN_IF_ERROR(plan.Add(call, "pointwise_kernel", Shape(dims), pointwise_).status());
    }
    return end_.Plan(call, outputs, output, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const ImageLayout& layout = conv_.layout;
    const int64_t channels = layout.Channels(call.shape());
    const std::string weights =
        DepthwiseWeights(call.Variable(kernel_name_), conv_, channels * multiplier_, nodes);
    const std::string x = layout.ToOnnx(call.input(), nodes);
    std::string y;
    if (kSeparable) {
      const std::string deep = conv_.Add(x, call.shape(), channels, {weights}, nodes);
      const std::string points =
          nodes.Transpose(call.Variable("pointwise_kernel"), conv_.Behind(1, 0));
      y = nodes.Op("Conv", WithFirst(deep, end_.Operands(points, call)));
    } else {
      y = conv_.Add(x, call.shape(), channels, end_.Operands(weights, call), nodes);
    }
    LayerValue value = layout.FromOnnx(y);
    value.type.shape =
        *conv_.Output(call.layer(), call.shape(), kSeparable ? filters_ : channels * multiplier_);
    return {Activate(end_.activation, value, target)};
  }

 private:
  static std::vector<std::string> WithFirst(const std::string& first,
                                            std::vector<std::string> others) {
    others.insert(others.begin(), first);
    return others;
  }

  ConvWindow conv_{kAxes};
  const char* kernel_name_ = "depthwise_kernel";
  int64_t filters_ = 1;
  int64_t multiplier_ = 1;
  WeightRules depthwise_{{.class_name = "GlorotUniform"}};
  WeightRules pointwise_{{.class_name = "GlorotUniform"}};
  ConvEnd end_;
};

// The gradient of a convolution with respect to its image: each position of the input adds its
// window to the output. So the output has the sizes of an image that the convolution, with the same
// strides and padding, would make an input of.
template <size_t kAxes>
class ConvTranspose : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    reader.DataFormat(&conv_.layout.channels_first);
    config.Require("filters");
    config.Int("filters", {.min = 1, .max = kDimMax}, &filters_);
    conv_.ReadTransposed(reader);
    if (config.Given("output_padding", !output_padding_.empty())) {
      output_padding_.assign(kAxes, 0);
      ReadOutputPadding(config);
    }
    config.OnlyNeutral("groups", int64_t{1});
    end_.Read(reader, {{"kernel", &kernel_}});
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const std::string& layer = call.settings.layer;
    const Shape& input = call.shape();
    RETURN_IF_ERROR(conv_.layout.Check(layer, input));
    const int64_t channels = conv_.layout.Channels(input);
    ASSIGN_OR_RETURN(const Shape kernel, conv_.Kernel(layer, input, filters_, channels));
    ASSIGN_OR_RETURN(const Shape output, Output(layer, input));
    RETURN_IF_ERROR(plan.Add(call, "kernel", kernel, kernel_).status());
    return end_.Plan(call, filters_, output, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string weights = nodes.Transpose(call.Variable("kernel"), conv_.Behind(1, 0));
    std::vector<std::string> operands = end_.Operands(weights, call);
    operands.insert(operands.begin(), conv_.layout.ToOnnx(call.input(), nodes));
    std::vector<int64_t> pads(2 * kAxes, 0), added(kAxes, 0);
    for (size_t i = 0; i < kAxes; ++i) {
      const AxisPlace place = PlaceOf(conv_.layout.Sizes(call.shape())[i], i);
      pads[i] = place.cut_before;
      pads[kAxes + i] = place.cut_behind;
      added[i] = place.added;
    }
    LayerValue y = conv_.layout.FromOnnx(nodes.graph().Op(
        "ConvTranspose", operands,
        {IntsAttribute("kernel_shape", conv_.kernel_size),
         IntsAttribute("strides", conv_.window.strides), IntsAttribute("dilations", conv_.dilation),
         IntsAttribute("pads", pads), IntsAttribute("output_padding", added)}));
    y.type.shape = *Output(call.layer(), call.shape());
    return {Activate(end_.activation, y, target)};
  }

 private:
  // The size of an axis of the output, the positions that are cut off before and behind the sum of
  // all windows, and the positions that are added behind it.
  struct AxisPlace {
    int64_t size, cut_before, cut_behind, added;
  };

  // Reads output_padding: how many positions the output gets behind each axis. It must be below the
  // stride, because a convolution would otherwise make a larger input of the output.
  void ReadOutputPadding(ObjectReader& config) {
    std::vector<int64_t> padding;
    config.Ints("output_padding", {.min = 0, .max = kDimMax}, kAxes, &padding);
    if (padding.size() != kAxes) {
      return config.AddError("output_padding",
                             absl::StrCat("must be a number, or one for each of ", kAxes, " axes"));
    }
    output_padding_ = padding;
    for (size_t i = 0; i < kAxes; ++i) {
      if (padding[i] < conv_.window.strides[i]) continue;
      config.AddError("output_padding",
                      absl::StrCat("has ", padding[i], ", which must be less than the stride ",
                                   conv_.window.strides[i]));
      return;
    }
  }

  AxisPlace PlaceOf(int64_t input, size_t axis) const {
    const int64_t extent = conv_.window.extents[axis];
    const int64_t stride = conv_.window.strides[axis];
    const int64_t windows = (input - 1) * stride + extent;
    int64_t size = 0;
    if (!output_padding_.empty()) {
      const int64_t cut = conv_.window.same_padding ? extent / 2 : 0;
      size = windows - 2 * cut + output_padding_[axis];
    } else if (conv_.window.same_padding) {
      size = input * stride;
    } else {
      size = std::max(windows, input * stride);
    }
    // As many positions are cut as padding "same" adds to an image of the output's size, as in
    // TensorFlow.
    const int64_t cut = conv_.window.same_padding ? std::max<int64_t>(windows - size, 0) : 0;
    return {size, cut / 2, cut - cut / 2, size - (windows - cut)};
  }

  // Returns the shape of the output. Errors: INVALID_ARGUMENT naming the layer.
  absl::StatusOr<Shape> Output(const std::string& layer, const Shape& input) const {
    std::vector<int64_t> sizes = conv_.layout.Sizes(input);
    for (size_t i = 0; i < kAxes; ++i) {
      const int64_t stride = conv_.window.strides[i];
      // The limit also keeps the products below from overflowing.
      if (sizes[i] > kElementsMax / stride || conv_.window.extents[i] > kElementsMax) {
        return WrongInput(layer, input, "it would give more than 2^31 elements");
      }
      const AxisPlace place = PlaceOf(sizes[i], i);
      // With padding "same", the convolution makes one position of each stride, rounded up.
      if (conv_.window.same_padding && (place.size + stride - 1) / stride != sizes[i]) {
        return WrongInput(layer, input,
                          absl::StrCat("its output_padding gives ", place.size, " positions for ",
                                       sizes[i], " strides of ", stride));
      }
      sizes[i] = place.size;
    }
    return conv_.layout.Example(layer, input, sizes, filters_);
  }

  ConvWindow conv_{kAxes};
  std::vector<int64_t> output_padding_;  // empty: follows from the padding
  int64_t filters_ = 1;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  ConvEnd end_;
};

}  // namespace

void AddConvolutionLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"Conv1D", MakeLayer<Conv<1>>});
  classes.push_back({"Conv2D", MakeLayer<Conv<2>>});
  classes.push_back({"Conv3D", MakeLayer<Conv<3>>});
  classes.push_back({"Conv1DTranspose", MakeLayer<ConvTranspose<1>>});
  classes.push_back({"Conv2DTranspose", MakeLayer<ConvTranspose<2>>});
  classes.push_back({"Conv3DTranspose", MakeLayer<ConvTranspose<3>>});
  classes.push_back({"DepthwiseConv1D", MakeLayer<DepthwiseConv<1, false>>});
  classes.push_back({"DepthwiseConv2D", MakeLayer<DepthwiseConv<2, false>>});
  classes.push_back({"SeparableConv1D", MakeLayer<DepthwiseConv<1, true>>});
  classes.push_back({"SeparableConv2D", MakeLayer<DepthwiseConv<2, true>>});
}

}  // namespace cohort
