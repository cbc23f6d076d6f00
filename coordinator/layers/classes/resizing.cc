// Layers that change the size of sequences, images and volumes, or the scale of their values.
//
// Resizing along one axis is a product with a matrix of weights, which has a row for each position
// of the result. Centres of positions are compared (half-pixel), as Keras does.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/image.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

const std::vector<std::string>& Interpolations() {
  static const auto* const kNames = new std::vector<std::string>{"nearest", "bilinear", "bicubic"};
  return *kNames;
}

// Returns the weight of a neighbour at this distance, by Keys's kernel with a = -0.5.
double CubicWeight(double distance) {
  const double d = std::fabs(distance);
  if (d <= 1) return (1.5 * d - 2.5) * d * d + 1;
  return d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
}

// Returns the weights [to,from] of a resizing along one axis.
std::vector<float> Weights(int64_t from, int64_t to, const std::string& interpolation) {
  std::vector<float> weights(static_cast<size_t>(from * to), 0);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    float* const row = weights.data() + i * from;
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto clamp = [&](double position) {
      return std::clamp<int64_t>(static_cast<int64_t>(position), 0, from - 1);
    };
    if (interpolation == "nearest") {
      row[clamp(std::floor(centre))] = 1;
      continue;
    }
    const double source = centre - 0.5;
    const double low = std::floor(source);
    if (interpolation == "bilinear") {
      row[clamp(low)] += static_cast<float>(1 - (source - low));
      row[clamp(low + 1)] += static_cast<float>(source - low);
      continue;
    }
    // The distance is rounded to 1/1024, as in TensorFlow. Neighbours outside of the image are left
    // out, and the other weights are scaled to add up to 1.
    const double fraction = std::nearbyint((source - low) * 1024) / 1024;
    double sum = 0;
    for (int k = -1; k <= 2; ++k) {
      const double position = low + k;
      if (position >= 0 && position < static_cast<double>(from)) {
        sum += CubicWeight(fraction - k);
      }
    }
    for (int k = -1; k <= 2; ++k) {
      const double position = low + k;
      if (position < 0 || position >= static_cast<double>(from)) continue;
      row[static_cast<int64_t>(position)] += static_cast<float>(CubicWeight(fraction - k) / sum);
    }
  }
  return weights;
}

// Resizes the rows and columns of x [N,channels,rows,columns].
std::string Resize(const std::string& x, const std::vector<int64_t>& from,
                   const std::vector<int64_t>& to, const std::string& interpolation,
                   const Nodes& nodes) {
  std::string y = x;
  if (from[0] != to[0]) {
    const std::string rows =
        nodes.Floats(Weights(from[0], to[0], interpolation), Shape({to[0], from[0]}));
    y = nodes.Op("MatMul", {rows, y});
  }
  if (from[1] != to[1]) {
    const std::string columns =
        nodes.Floats(Weights(from[1], to[1], interpolation), Shape({to[1], from[1]}));
    y = nodes.Op("MatMul", {y, nodes.Transpose(columns, {1, 0})});
  }
  return y;
}

// Repeats each position, or interpolates between positions of an image.
template <size_t kAxes>
class UpSampling : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    if (kAxes == 1) {
      reader.OnlyChannelsLast();
    } else {
      reader.DataFormat(&layout_.channels_first);
    }
    reader.Extents("size", &size_);
    if (kAxes == 2) reader.config.Choice("interpolation", Interpolations(), &interpolation_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    const Shape& input = call.shape();
    RETURN_IF_ERROR(layout_.Check(call.settings.layer, input));
    ASSIGN_OR_RETURN(const Shape output, layout_.Example(call.settings.layer, input, Larger(input),
                                                         layout_.Channels(input)));
    return std::vector<TensorType>{{.shape = output}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> sizes = layout_.Sizes(call.shape());
    std::string x = layout_.ToOnnx(call.input(), nodes);
    if (interpolation_ != "nearest") {
      return {layout_.FromOnnx(Resize(x, sizes, Larger(call.shape()), interpolation_, nodes))};
    }
    for (size_t axis = 0; axis < kAxes; ++axis) {
      if (size_[axis] == 1) continue;
      std::vector<int64_t> positions;
      for (int64_t i = 0; i < sizes[axis] * size_[axis]; ++i) positions.push_back(i / size_[axis]);
      x = target.graph.Op("Gather", {x, nodes.Ints(positions)},
                          {IntAttribute("axis", static_cast<int64_t>(axis) + 2)});
    }
    return {layout_.FromOnnx(x)};
  }

 private:
  std::vector<int64_t> Larger(const Shape& input) const {
    std::vector<int64_t> sizes = layout_.Sizes(input);
    for (size_t i = 0; i < kAxes; ++i) sizes[i] *= size_[i];
    return sizes;
  }

  ImageLayout layout_{kAxes};
  std::vector<int64_t> size_ = std::vector<int64_t>(kAxes, 2);
  std::string interpolation_ = "nearest";
};

// A part of an image: where it begins, and its extent. It may begin before the image.
struct ImagePart {
  std::vector<int64_t> begins = {0, 0};
  std::vector<int64_t> sizes = {0, 0};
};

// Returns the part of the image with the target's aspect ratio: the largest one in the middle or,
// if `pads`, the smallest one around the whole image.
ImagePart PartOfRatio(const std::vector<int64_t>& sizes, const std::vector<int64_t>& target,
                      bool pads) {
  ImagePart part;
  for (size_t i = 0; i < 2; ++i) {
    const auto fitting = static_cast<int64_t>(static_cast<double>(sizes[1 - i] * target[i]) /
                                              static_cast<double>(target[1 - i]));
    part.sizes[i] = pads ? std::max(sizes[i], fitting) : std::min(sizes[i], fitting);
    part.begins[i] = (sizes[i] - part.sizes[i]) / 2;
    // Keras pads both sides equally, even if the difference is odd.
    if (pads) part.sizes[i] = sizes[i] - 2 * part.begins[i];
  }
  return part;
}

std::string CutOrPad(const std::string& x, const std::vector<int64_t>& sizes, const ImagePart& part,
                     double fill, const Nodes& nodes) {
  if (part.sizes == sizes) return x;
  if (part.begins[0] <= 0 && part.begins[1] <= 0 && part.sizes[0] >= sizes[0]) {
    std::vector<int64_t> pads = {0, 0, -part.begins[0], -part.begins[1], 0, 0};
    for (size_t i = 0; i < 2; ++i) pads.push_back(part.sizes[i] - sizes[i] + part.begins[i]);
    return nodes.Op("Pad", {x, nodes.Ints(pads), nodes.Number(fill)});
  }
  const std::vector<int64_t> ends = {part.begins[0] + part.sizes[0],
                                     part.begins[1] + part.sizes[1]};
  return nodes.Op("Slice", {x, nodes.Ints(part.begins), nodes.Ints(ends), nodes.Ints({2, 3})});
}

// Resizing, and CenterCrop, which resizes images that are too small.
class ToSize : public Layer {
 protected:
  void ReadSize(LayerReader& reader) {
    reader.FloatPolicy();
    for (const char* key : {"height", "width"}) reader.config.Require(key);
    reader.config.Int("height", {.min = 1, .max = kDimMax}, &target_[0]);
    reader.config.Int("width", {.min = 1, .max = kDimMax}, &target_[1]);
    reader.DataFormat(&layout_.channels_first);
  }

 public:
  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    const Shape& input = call.shape();
    RETURN_IF_ERROR(layout_.Check(call.settings.layer, input));
    ASSIGN_OR_RETURN(const Shape output,
                     layout_.Example(call.settings.layer, input, target_, layout_.Channels(input)));
    return std::vector<TensorType>{{.shape = output}};
  }

 protected:
  ImageLayout layout_{2};
  std::vector<int64_t> target_ = {1, 1};
};

class Resizing : public ToSize {
 public:
  void Read(LayerReader& reader) override {
    ReadSize(reader);
    ObjectReader& config = reader.config;
    config.Choice("interpolation", Interpolations(), &interpolation_);
    config.Bool("crop_to_aspect_ratio", &crops_);
    config.Bool("pad_to_aspect_ratio", &pads_);
    if (crops_ && pads_) {
      config.AddError("pad_to_aspect_ratio", "stands beside crop_to_aspect_ratio; one is true");
    }
    config.OnlyNeutral("fill_mode", "constant");
    config.Number("fill_value", {}, &fill_value_);
    config.OnlyNeutral("antialias", false);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> sizes = layout_.Sizes(call.shape());
    std::string x = layout_.ToOnnx(call.input(), nodes);
    ImagePart part = {{0, 0}, sizes};
    if (crops_ || pads_) part = PartOfRatio(sizes, target_, pads_);
    x = CutOrPad(x, sizes, part, fill_value_, nodes);
    return {layout_.FromOnnx(Resize(x, part.sizes, target_, interpolation_, nodes))};
  }

 private:
  std::string interpolation_ = "bilinear";
  bool crops_ = false;
  bool pads_ = false;
  double fill_value_ = 0;
};

class CenterCrop : public ToSize {
 public:
  void Read(LayerReader& reader) override { ReadSize(reader); }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> sizes = layout_.Sizes(call.shape());
    const std::string x = layout_.ToOnnx(call.input(), nodes);
    ImagePart part = {{(sizes[0] - target_[0]) / 2, (sizes[1] - target_[1]) / 2}, target_};
    const bool fits = sizes[0] >= target_[0] && sizes[1] >= target_[1];
    if (fits) return {layout_.FromOnnx(CutOrPad(x, sizes, part, 0, nodes))};
    part = PartOfRatio(sizes, target_, /*pads=*/false);
    const std::string cut = CutOrPad(x, sizes, part, 0, nodes);
    return {layout_.FromOnnx(Resize(cut, part.sizes, target_, "bilinear", nodes))};
  }
};

// Computes x * scale + offset, where each is a number, or a number for each channel.
class Rescaling : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("scale");
    ReadNumbers("scale", reader.config, &scale_);
    ReadNumbers("offset", reader.config, &offset_);
    passes_mask_ = !reader.Keras().IsKeras2();
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const int rank = call.shape().rank();
    const int64_t channels = rank == 0 ? 1 : call.shape().dim(rank - 1);
    for (const std::vector<float>* numbers : {&scale_, &offset_}) {
      const auto count = static_cast<int64_t>(numbers->size());
      if (count != 1 && count != channels) {
        return WrongInput(call.settings.layer, call.shape(),
                          absl::StrCat("it has ", count, " numbers for their channels"));
      }
    }
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string x = ChannelsLast(call.input(), nodes);
    LayerValue y{nodes.Add(nodes.Mul(x, Constant(scale_, nodes)), Constant(offset_, nodes))};
    if (passes_mask_) y.mask = call.input().mask;
    return {std::move(y)};
  }

 private:
  static void ReadNumbers(const char* key, ObjectReader& config, std::vector<float>* numbers) {
    const json* const value = config.Find(key);
    if (value == nullptr) return;
    std::vector<float> read;
    const json list = value->is_array() ? *value : json::array({*value});
    for (const json& one : list) {
      if (one.is_number()) read.push_back(one.get<float>());
    }
    if (read.empty() || read.size() != list.size()) {
      return config.AddError(key, absl::StrCat("is ", JsonExcerpt(*value),
                                               "; it must be a number, or a list of numbers"));
    }
    *numbers = read;
    config.RecordAs(key, *value);
  }

  static std::string Constant(const std::vector<float>& numbers, const Nodes& nodes) {
    const auto count = static_cast<int64_t>(numbers.size());
    return nodes.Floats(numbers, count == 1 ? Shape() : Shape({count}));
  }

  std::vector<float> scale_ = {1};
  std::vector<float> offset_ = {0};
  bool passes_mask_ = false;
};

}  // namespace

void AddResizingLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"UpSampling1D", MakeLayer<UpSampling<1>>});
  classes.push_back({"UpSampling2D", MakeLayer<UpSampling<2>>});
  classes.push_back({"UpSampling3D", MakeLayer<UpSampling<3>>});
  classes.push_back({"Resizing", MakeLayer<Resizing>});
  classes.push_back({"CenterCrop", MakeLayer<CenterCrop>});
  classes.push_back({"Rescaling", MakeLayer<Rescaling>, MaskRule::kOwn});
}

}  // namespace cohort
