// Layers that change their input in training only, or add to the loss; and Masking.

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

constexpr NumberRange kRates = {.min = 0, .max = 1, .max_excluded = true};

// Adds a Dropout, which multiplies the kept elements by 1 / (1 - rate).
std::string AddDropout(const std::string& x, double rate, const std::optional<uint64_t>& seed,
                       const Nodes& nodes) {
  const std::string training = nodes.graph().Constant("training", Tensor::Scalar(true));
  std::vector<onnx::AttributeProto> attributes;
  if (seed) attributes.push_back(IntAttribute("seed", static_cast<int64_t>(*seed)));
  return nodes.graph().Op("Dropout", {x, nodes.Number(rate), training}, std::move(attributes));
}

// Adds normal random numbers of the shape of x.
std::string AddNormal(const std::string& x, double mean, double stddev,
                      const std::optional<uint64_t>& seed, const Nodes& nodes) {
  std::vector<onnx::AttributeProto> attributes = {
      FloatAttribute("mean", static_cast<float>(mean)),
      FloatAttribute("scale", static_cast<float>(stddev))};
  if (seed) attributes.push_back(FloatAttribute("seed", static_cast<float>(*seed)));
  return nodes.graph().Op("RandomNormalLike", {x}, std::move(attributes));
}

// Returns ones of the shape of x, with 1 in the place of each axis in `shared`.
std::string Ones(const std::string& x, const std::vector<int64_t>& shared, const Nodes& nodes) {
  std::string part = x;
  for (const int64_t axis : shared) part = nodes.Slice(part, axis, 0, 1);
  return nodes.Add(nodes.Mul(part, nodes.Number(0)), nodes.Number(1));
}

// A layer that changes a share of the elements at random.
class RandomLayer : public SameTypeLayer {
 protected:
  void ReadRate(LayerReader& reader) {
    reader.FloatPolicy();
    reader.config.Require("rate");
    reader.config.Number("rate", kRates, &rate_);
    reader.config.OptionalSeed("seed", &seed_);
  }

  double rate_ = 0;
  std::optional<uint64_t> seed_;
};

class Dropout : public RandomLayer {
 public:
  void Read(LayerReader& reader) override {
    ReadRate(reader);
    ReadNoiseShape(reader.config);
  }

  // If nothing is dropped, the input passes through with its logits, as in Keras.
  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const LayerValue& x = call.input();
    if (target.mode != ModelMode::kTraining || rate_ == 0) return {x};
    const Nodes nodes(target.graph);
    if (shared_axes_.empty()) {
      return {{AddDropout(x.value, rate_, seed_, nodes), "", x.channels_first}};
    }
    const std::string value = ChannelsLast(x, nodes);
    const std::string kept = AddDropout(Ones(value, shared_axes_, nodes), rate_, seed_, nodes);
    return {{nodes.Mul(value, kept)}};
  }

 private:
  // Reads noise_shape. A 1 in it marks an axis along which either all elements are dropped or none.
  void ReadNoiseShape(ObjectReader& config) {
    if (config.Find("noise_shape") == nullptr) return;
    if (config.HoldsList("noise_shape")) {
      std::vector<int64_t> shape;
      config.NullableInts("noise_shape", {.min = 1, .max = kDimMax}, &shape);
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) shared_axes_.push_back(static_cast<int64_t>(i));
      }
      return;
    }
    config.OnlyNeutral("noise_shape", nullptr);
  }

  // Axes along which elements are dropped together; axis 0 is the batch.
  std::vector<int64_t> shared_axes_;
};

// Drops whole channels.
template <size_t kAxes>
class SpatialDropout : public RandomLayer {
 public:
  void Read(LayerReader& reader) override {
    ReadRate(reader);
    reader.config.OnlyNeutral("noise_shape", nullptr);
    if (kAxes == 1) {
      reader.OnlyChannelsLast();
    } else {
      reader.DataFormat(&channels_first_);
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    if (call.shape().rank() != static_cast<int>(kAxes) + 1) {
      return WrongInput(call.settings.layer, call.shape(),
                        absl::StrCat("it needs ", kAxes, " dimensions beside the channels"));
    }
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const LayerValue& x = call.input();
    if (target.mode != ModelMode::kTraining || rate_ == 0) return {x};
    const Nodes nodes(target.graph);
    const std::string value = ChannelsLast(x, nodes);
    std::vector<int64_t> shared(kAxes);
    std::iota(shared.begin(), shared.end(), channels_first_ ? 2 : 1);
    return {{nodes.Mul(value, AddDropout(Ones(value, shared, nodes), rate_, seed_, nodes))}};
  }

 private:
  bool channels_first_ = false;
};

// Sets dropped elements to the lowest value of selu, and scales all so that mean and variance stay.
class AlphaDropout : public RandomLayer {
 public:
  void Read(LayerReader& reader) override {
    ReadRate(reader);
    reader.config.OnlyNeutral("noise_shape", nullptr);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const LayerValue& x = call.input();
    if (target.mode != ModelMode::kTraining || rate_ == 0) return {x};
    const Nodes nodes(target.graph);
    constexpr double kLowest =
        -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717;
    const double scale = 1 / std::sqrt((1 - rate_) * (1 + rate_ * kLowest * kLowest));
    const double shift = -scale * kLowest * rate_;
    // A Dropout of ones is 1 / (1 - rate) for kept elements, and 0 for dropped ones.
    const std::string dropped = AddDropout(Ones(x.value, {}, nodes), rate_, seed_, nodes);
    const std::string stays = nodes.Mul(dropped, nodes.Number(1 - rate_));
    const std::string lowest = nodes.Mul(nodes.Sub(nodes.Number(1), stays), nodes.Number(kLowest));
    const std::string mixed = nodes.Add(nodes.Mul(x.value, stays), lowest);
    return {{nodes.Add(nodes.Mul(mixed, nodes.Number(scale)), nodes.Number(shift)), "",
             x.channels_first}};
  }
};

// Adds a random number to each element.
class GaussianNoise : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("stddev");
    reader.config.Number("stddev", {.min = 0}, &stddev_);
    reader.config.OptionalSeed("seed", &seed_);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const LayerValue& x = call.input();
    if (target.mode != ModelMode::kTraining || stddev_ == 0) return {x};
    const Nodes nodes(target.graph);
    const std::string noise = AddNormal(x.value, 0, stddev_, seed_, nodes);
    return {{nodes.Add(x.value, noise), "", x.channels_first}};
  }

 private:
  double stddev_ = 0;
  std::optional<uint64_t> seed_;
};

// Multiplies each element by a random number about 1, with the variance that Dropout's factor has.
class GaussianDropout : public RandomLayer {
 public:
  void Read(LayerReader& reader) override { ReadRate(reader); }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const LayerValue& x = call.input();
    if (target.mode != ModelMode::kTraining || rate_ == 0) return {x};
    const Nodes nodes(target.graph);
    const std::string factor = AddNormal(x.value, 1, std::sqrt(rate_ / (1 - rate_)), seed_, nodes);
    return {{nodes.Mul(x.value, factor), "", x.channels_first}};
  }
};

// Passes its input through. ActivityRegularization adds a penalty for it to the loss.
class Identity : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override { reader.FloatPolicy(); }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget&) const override {
    return {call.input()};
  }
};

class ActivityRegularization : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Number("l1", {.min = 0}, &regularizer_.l1);
    reader.config.Number("l2", {.min = 0}, &regularizer_.l2);
  }

  const RegularizerSpec* activity() const override { return &regularizer_; }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget&) const override {
    return {call.input()};
  }

 private:
  RegularizerSpec regularizer_;
};

// Marks steps whose elements all equal the mask value, and makes them 0.
class Masking : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Number("mask_value", {}, &mask_value_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    if (call.shape().rank() < 1) {
      return WrongInput(call.settings.layer, call.shape(), "it needs steps of elements");
    }
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string x = ChannelsLast(call.input(), nodes);
    const std::string equal = nodes.Op("Equal", {x, nodes.Number(mask_value_)});
    const std::string differs = nodes.Cast(nodes.Op("Not", {equal}), DType::kFloat32);
    const std::string counts = nodes.Reduce("ReduceMax", differs, {-1});
    LayerValue value{nodes.Mul(x, counts)};
    const int64_t last = call.shape().rank();
    value.mask = nodes.Cast(nodes.ReduceAway("ReduceMax", differs, {last}), DType::kBool);
    return {std::move(value)};
  }

 private:
  double mask_value_ = 0;
};

}  // namespace

void AddRegularizationLayers(std::vector<LayerClass>& classes) {
  const auto add = [&](const char* name, std::unique_ptr<Layer> (*make)(const char*)) {
    classes.push_back({name, make, MaskRule::kPass});
  };
  add("Dropout", MakeLayer<Dropout>);
  add("SpatialDropout1D", MakeLayer<SpatialDropout<1>>);
  add("SpatialDropout2D", MakeLayer<SpatialDropout<2>>);
  add("SpatialDropout3D", MakeLayer<SpatialDropout<3>>);
  add("AlphaDropout", MakeLayer<AlphaDropout>);
  add("GaussianDropout", MakeLayer<GaussianDropout>);
  add("GaussianNoise", MakeLayer<GaussianNoise>);
  add("ActivityRegularization", MakeLayer<ActivityRegularization>);
  add("Identity", MakeLayer<Identity>);
  classes.push_back({"Masking", MakeLayer<Masking>, MaskRule::kOwn});
}

}  // namespace cohort
